import type { FilePart, ImagePart, InputAudioPart, MediaSource, Part, TextPart } from "../../operations/conversation/conversation.ts";
import { failure, type Failure } from "../../operations/failure.ts";

export type ConverseBlock = Readonly<Record<string, unknown>>;

/** The documents of a conversation need names, each its own. They are numbered in their order, so that earlier ones never change. */
export class DocumentNames {
  private count = 0;

  next(name: string | null): string {
    this.count++;
    const plain = (name ?? "")
      .replace(/[^A-Za-z0-9()[\]-]+/g, " ")
      .trim()
      .slice(0, nameMax);
    return `${plain === "" ? "document" : plain} ${this.count}`;
  }
}

const nameMax = 180;

/** An image, a recording or a file, or why the API cannot carry it. */
export function mediaBlock(part: ImagePart | InputAudioPart | FilePart, names: DocumentNames): ConverseBlock | Failure {
  switch (part.kind) {
    case "image": {
      const source = sourceOf(part.source);
      if (source === null) return notByUrl("images");
      const format = formatOf(part.source, imageFormats);
      return format === null ? unknownFormat("image") : { image: { format, source } };
    }
    case "audio":
      return { audio: { format: part.format, source: { bytes: part.data } } };
    case "file": {
      const { source: from, name } = part;
      if (from.kind === "text") return { text: name === null ? from.text : `${name}:\n\n${from.text}` };
      const source = sourceOf(from);
      if (source === null) return notByUrl("files");
      const format = formatOf(from, documentFormats) ?? endingOf(name, documentFormats);
      return format === null ? unknownFormat("file") : { document: { format, name: names.next(name), source } };
    }
  }
}

export function isMedia(part: Part): part is ImagePart | InputAudioPart | FilePart {
  return part.kind === "image" || part.kind === "audio" || part.kind === "file";
}

/** Content that the API refuses because it is blank is left out. */
export function textBlock({ text }: TextPart): ConverseBlock | null {
  return text.trim() === "" ? null : { text };
}

/** Null if the API has to be given the data itself. */
function sourceOf(source: MediaSource): ConverseBlock | null {
  if (source.kind === "data") return { bytes: source.data };
  return source.kind === "url" && source.url.startsWith("s3://") ? { s3Location: { uri: source.url } } : null;
}

function formatOf(source: MediaSource, formats: Formats): string | null {
  if (source.kind === "data") {
    const [type = ""] = source.mediaType.toLowerCase().split(";", 1);
    return formats.byType[type.trim()] ?? null;
  }
  return source.kind === "url" ? endingOf(source.url, formats) : null;
}

function endingOf(name: string | null, { endings }: Formats): string | null {
  const ending = /\.([a-z0-9]{1,5})$/i.exec(name ?? "")?.[1]?.toLowerCase() ?? "";
  return endings[ending] ?? null;
}

interface Formats {
  readonly byType: Readonly<Record<string, string>>;
  /** By the ending of a name, for what has no media type. */
  readonly endings: Readonly<Record<string, string>>;
}

const imageFormats: Formats = {
  byType: { "image/png": "png", "image/jpeg": "jpeg", "image/jpg": "jpeg", "image/gif": "gif", "image/webp": "webp" },
  endings: { png: "png", jpg: "jpeg", jpeg: "jpeg", gif: "gif", webp: "webp" },
};

const documentFormats: Formats = {
  byType: {
    "application/pdf": "pdf",
    "text/csv": "csv",
    "application/msword": "doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "text/html": "html",
    "text/plain": "txt",
    "text/markdown": "md",
  },
  endings: { pdf: "pdf", csv: "csv", doc: "doc", docx: "docx", xls: "xls", xlsx: "xlsx", html: "html", txt: "txt", md: "md" },
};

function notByUrl(what: string): Failure {
  return failure("unsupported", `the upstream takes ${what} as data only`, {
    message: `This model takes ${what} as base64 data, not by URL or file id.`,
  });
}

function unknownFormat(what: string): Failure {
  return failure("unsupported", `the upstream does not take ${what}s of this type`, {
    message: `This model does not take ${what}s of this type.`,
  });
}
