import { Option } from "commander";
import { type Operation, operationSpecs } from "../../operations/operation.ts";
import { configOption, jsonOption, type CommandRegistry, type CommonOptions } from "../command-registry.ts";

/** A command on the channels of the configuration. */
export interface ChannelsRequest {
  readonly act: "test";
  readonly name: string;
  /** As clients name it; null: the first model of each operation. */
  readonly model: string | null;
  /** Null: all but those that are expensive. */
  readonly operations: readonly Operation[] | null;
  /** The file for what it speaks; null: it is not kept. */
  readonly audio: string | null;
  readonly json: boolean;
}

/** Lists the channels of a running gateway. */
export interface ChannelListRequest {
  readonly on: "channels";
  readonly json: boolean;
}

export function addChannels(
  { program, onRequest: onList }: CommandRegistry,
  onRequest: (config: string | null, request: ChannelsRequest) => void,
): void {
  const channels = program
    .command("channels")
    .description("list the channels of a running gateway, and try those of the configuration")
    .addHelpText("after", channelsExamples);
  channels
    .command("list")
    .description("list the channels of a running gateway, with their state")
    .option(...jsonOption)
    .option(...configOption)
    .addHelpText("after", channelsExamples)
    .action(({ config, json = false }: CommonOptions) => onList(config, { on: "channels", json }));
  channels
    .command("test")
    .description("make one small real call for each operation of a channel, and report how it went")
    .argument("<name>", "the name of the channel")
    .option("-m, --model <model>", "the model to ask for (default: the first of each operation)")
    .addOption(
      new Option("-o, --operations <operations...>", "the operations to try (default: all but images, which cost the most)").choices(
        Object.keys(operationSpecs),
      ),
    )
    .option("--audio <file>", "keep what the channel speaks, to listen to it")
    .option(...jsonOption)
    .option(...configOption)
    .addHelpText("after", channelsExamples)
    .action((name: string, options: { model?: string; operations?: Operation[]; audio?: string; json?: boolean; config?: string }) => {
      const { model = null, operations = null, audio = null, json = false, config = null } = options;
      onRequest(config, { act: "test", name, model, operations, audio, json });
    });
}

const channelsExamples = `
Examples:
  sluice channels list                                    as the running gateway sees them
  sluice channels test main                               every operation of the channel
  sluice channels test main --model fast --operations chat
  sluice channels test main --operations image            images are tried only if they are named
  sluice channels test main --audio speech.mp3            keeps what it speaks, to listen to it

The calls are real and cost a little. They are made by this command itself: the gateway does not have to run, and neither
limits nor receipts of a running one are touched. Channels of the store are tested in the console, or with --url: the
gateway there makes the same calls.
`;
