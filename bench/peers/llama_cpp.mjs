// llama.cpp on one GGUF file, timed: jobs come in as lines of JSON on stdin, answers go out as lines on stdout.
//
//   node llama_cpp.mjs NODE_MODULES MODEL.gguf STATE_FOLDER
//
//   {"kind": "prefill", "threads", "prompt"}                     seconds for a prompt of so many tokens
//   {"kind": "decode", "threads", "batch", "context", "steps"}   seconds for so many steps of `batch` sequences in
//                                                                one batch, each with `context` tokens before it
//   {"kind": "greedy", "threads", "ids", "tokens"}               the likeliest continuation, as token ids
//
// The first line out is {"release", "system"}: what is being measured. It uses the native objects beneath the package's
// classes, as llama.cpp's own benchmark uses its library: a step is one call of llama_decode with all sequences in
// it, the tokens are given, and nothing is sampled. Only that call is on the clock.

import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import readline from 'node:readline';
import { pathToFileURL } from 'node:url';

const BATCH_TOKENS = 512; // llama.cpp's default for the tokens of one pass
const WARM_UP_STEPS = 4;
const KEPT_CONTEXT_TOKENS = 4096; // from here on a context is read from a file after its first use

// Spread over the vocabulary and different in every sequence, so that a batch meets many experts.
function tokenAt(position, sequence, vocabulary) {
  return (position * 7919 + sequence * 104729 + 13) % vocabulary;
}

function tokens(begin, end, sequence, vocabulary) {
  return Uint32Array.from({ length: end - begin }, (_, i) => tokenAt(begin + i, sequence, vocabulary));
}

class Context {
  static async create(peer, sequences, tokensEach, threads) {
    const context = new Context();
    const batchSize = Math.max(sequences, Math.min(BATCH_TOKENS, tokensEach));
    context.native = new peer.bindings.AddonContext(peer.model, {
      contextSize: sequences * tokensEach, batchSize, sequences, threads, flashAttention: 'auto',
    });
    if (!await context.native.init()) throw new Error('the context could not be made');
    context.batchSize = batchSize;
    return context;
  }

  // Runs `parts`, each [sequence, position of the first token, tokens], as one batch. The last token of each gives
  // logits. Returns {seconds, rows: where the logits are}.
  async step(parts) {
    this.native.initBatch(parts.reduce((sum, [, , ids]) => sum + ids.length, 0));
    const rows = parts.map(([sequence, position, ids]) => this.native.addToBatch(
      sequence, position, ids, new Uint32Array([ids.length - 1]))[0]);
    const begin = performance.now();
    await this.native.decodeBatch();
    return { seconds: (performance.now() - begin) / 1000, rows };
  }

  // The tokens of one sequence in batches. Returns {seconds, rows} of all and of the last.
  async prefill(sequence, ids) {
    let seconds = 0;
    let rows;
    for (let at = 0; at < ids.length; at += this.batchSize) {
      const done = await this.step([[sequence, at, ids.subarray(at, at + this.batchSize)]]);
      seconds += done.seconds;
      rows = done.rows;
    }
    return { seconds, rows };
  }

  async dispose() {
    await this.native.dispose();
  }
}

class Peer {
  constructor(bindings, model, vocabulary, stateFolder) {
    Object.assign(this, { bindings, model, vocabulary, stateFolder });
  }

  // A long context is computed once: afterwards its state comes from a file.
  async fill(context, sequence, length) {
    const ids = tokens(0, length, sequence, this.vocabulary);
    const file = path.join(this.stateFolder, `state-${sequence}-${length}`);
    if (length >= KEPT_CONTEXT_TOKENS && fs.existsSync(file)) {
      await context.native.loadSequenceStateFromFile(file, sequence, length + 1);
      return;
    }
    const threads = context.native.getThreads();
    context.native.setThreads(os.availableParallelism());
    await context.prefill(sequence, ids);
    context.native.setThreads(threads);
    if (length >= KEPT_CONTEXT_TOKENS) {
      await context.native.saveSequenceStateToFile(`${file}.part`, sequence, ids);
      fs.renameSync(`${file}.part`, file);
    }
  }

  async prefill({ threads, prompt }) {
    const context = await Context.create(this, 1, prompt, threads);
    const { seconds } = await context.prefill(0, tokens(0, prompt, 0, this.vocabulary));
    await context.dispose();
    return { seconds };
  }

  async decode({ threads, batch, context: length, steps }) {
    const context = await Context.create(this, batch, length + WARM_UP_STEPS + steps, threads);
    for (let sequence = 0; sequence < batch; ++sequence) await this.fill(context, sequence, length);
    let seconds = 0;
    for (let i = 0; i < WARM_UP_STEPS + steps; ++i) {
      const position = length + i;
      const done = await context.step(Array.from({ length: batch }, (_, sequence) => [
        sequence, position, tokens(position, position + 1, sequence, this.vocabulary)]));
      if (i >= WARM_UP_STEPS) seconds += done.seconds;
    }
    await context.dispose();
    return { seconds };
  }

  async greedy({ threads, ids, tokens: count }) {
    const context = await Context.create(this, 1, ids.length + count, threads);
    const sampler = new this.bindings.AddonSampler(this.model);
    sampler.applyConfig({ temperature: 0 });
    const answer = [];
    let { rows } = await context.prefill(0, Uint32Array.from(ids));
    for (;;) {
      answer.push(await context.native.sampleToken(rows[0], sampler));
      if (answer.length === count) break;
      const position = ids.length + answer.length - 1;
      ({ rows } = await context.step([[0, position, new Uint32Array(answer.slice(-1))]]));
    }
    sampler.dispose();
    await context.dispose();
    return { ids: answer };
  }
}

async function main([modules, file, stateFolder]) {
  const { getLlama, readGgufFileInfo } = await import(pathToFileURL(path.resolve(
    modules, 'node-llama-cpp/dist/index.js')));
  const llama = await getLlama({ gpu: false, build: 'never', logLevel: 'error' });
  const bindings = llama._bindings;
  const { metadata } = await readGgufFileInfo(file);
  const model = new bindings.AddonModel(path.resolve(file), {
    addonExports: bindings, gpuLayers: 0, useMmap: true,
  });
  if (!await model.init()) throw new Error(`${file} could not be loaded`);
  const vocabulary = metadata[metadata.general.architecture].vocab_size;
  const peer = new Peer(bindings, model, vocabulary, stateFolder);
  const kinds = { prefill: peer.prefill, decode: peer.decode, greedy: peer.greedy };
  const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
  say({ release: llama.llamaCppRelease.release, system: bindings.systemInfo().trim() });
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const job = JSON.parse(line);
    say(await kinds[job.kind].call(peer, job));
  }
  await model.dispose();
  await llama.dispose();
}

await main(process.argv.slice(2));
