/** Pages of the documentation that are part of the console, as text. */
declare module "*.md" {
  const text: string;
  // oxlint-disable-next-line import/no-default-export -- The bundler gives a text as the default export of its file.
  export default text;
}
