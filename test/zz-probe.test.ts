import { Stage } from "/work/main/test/support/stage.ts";
const faults = (process.env.FAULTS ?? "ok").split(" ");
const quick = process.env.QUICK ? { timeouts: { connect: "400ms", first_byte: "600ms", first_content: "600ms", idle: "300ms", progress: "900ms" } } : { timeouts: {first_byte: "4s", first_content: "4s", idle: "3s"}};
const stage = new Stage({});
for (const f of faults) for (const alone of [false, true]) for (const stream of [false, true]) {
  stage.row(`${f}`, async (row) => {
  const t = performance.now();
    row.a.behaviour = f;
    let reply;
    try { reply = await row.ask({ stream, alone, timeoutMs: 6000 }); } catch (e) { console.log(f, alone, stream, "ASK", String(e)); return; }
    const line = await row.line(reply);
    console.log(`${f} ${alone ? "alone" : "pair"} ${stream ? "stream" : "whole"}: ${reply.status} ${reply.error?.code ?? ""} content=${JSON.stringify(reply.content.slice(0,60))} fin=${reply.finishReason} done=${reply.done} path=${row.path(reply)} ${Math.round(performance.now()-t)}ms log=${line.state}/${line.error ?? ""}/${JSON.stringify((line.tries as any)?.map((x:any)=>x.channel[0]+":"+(x.error??x.outcome)+":"+(x.detail??"").slice(0,60)))} sr=${reply.response.header("x-should-retry")} ra=${reply.response.header("retry-after")} pt=${line.prompt_tokens} ct=${line.completion_tokens}`);
  }, { channel: quick });
}
