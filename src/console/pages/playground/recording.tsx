import { useEffect, useRef, useState } from "preact/hooks";
import { peaksOf } from "./subtitles.ts";

/** A recording with its waveform, and with subtitles over the player where there are some. */
export function Recording({ file, subtitles }: { readonly file: File; readonly subtitles: string | null }) {
  const url = useBlobUrl(file);
  const track = useBlobUrl(subtitles === null ? null : new Blob([subtitles], { type: "text/vtt" }), subtitles);
  return (
    <div class="stack">
      <Waveform file={file} />
      {/* A video element: browsers show the subtitles of an audio element nowhere. */}
      <video class="recording" controls src={url ?? undefined} aria-label={`Recording ${file.name}`}>
        {track !== null && <track key={track} default kind="captions" label="Transcript" src={track} />}
      </video>
    </div>
  );
}

/** The address of some data for as long as it is shown. */
function useBlobUrl(blob: Blob | null, identity: unknown = blob): string | null {
  const [url, setUrl] = useState<string | null>(null);
  useEffect(() => {
    const made = blob === null ? null : URL.createObjectURL(blob);
    setUrl(made);
    return () => {
      if (made !== null) URL.revokeObjectURL(made);
    };
  }, [identity]);
  return url;
}

function Waveform({ file }: { readonly file: File }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [text, setText] = useState("");
  useEffect(() => {
    let isGone = false;
    void decoded(file).then((audio) => {
      if (isGone || audio === null) return;
      setText(`${audio.duration.toFixed(1)} s`);
      if (canvas.current !== null) draw(canvas.current, peaksOf(audio.getChannelData(0), barsMax));
    });
    return () => {
      isGone = true;
    };
  }, [file]);
  return (
    <figure>
      <canvas ref={canvas} class="waveform" width={barsMax * 3} height={60} role="img" aria-label={`Waveform of ${file.name}, ${text}`} />
    </figure>
  );
}

const barsMax = 240;

async function decoded(file: File): Promise<AudioBuffer | null> {
  try {
    return await new OfflineAudioContext(1, 1, 16_000).decodeAudioData(await file.arrayBuffer());
  } catch {
    // The browser does not know the format; the gateway may.
    return null;
  }
}

function draw(canvas: HTMLCanvasElement, peaks: readonly number[]): void {
  const context = canvas.getContext("2d");
  if (context === null) return;
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.fillStyle = getComputedStyle(canvas).color;
  for (const [at, peak] of peaks.entries()) {
    const height = Math.max(1, peak * canvas.height);
    context.fillRect(at * 3, (canvas.height - height) / 2, 2, height);
  }
}
