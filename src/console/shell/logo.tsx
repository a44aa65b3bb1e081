/** The mark of the gateway, as in the icon of the page. */
export function Logo() {
  return (
    <svg viewBox="0 0 32 32" width="26" height="26" aria-hidden="true">
      <rect width="32" height="32" rx="7" fill="#0b6a7d" />
      <path d="M7 9v14M25 9v14M7 13h18" stroke="#fff" stroke-width="2.6" stroke-linecap="round" fill="none" />
      <path d="M11 19c2-1.6 3.4-1.6 5 0s3 1.6 5 0" stroke="#9fe3f0" stroke-width="2.2" stroke-linecap="round" fill="none" />
    </svg>
  );
}
