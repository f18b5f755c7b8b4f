// Starts `tandem serve` with the bundled model on a free port.
import {spawn} from 'node:child_process';
import {createInterface} from 'node:readline';

export async function startServer(tandem, options = []) {
  const child = spawn(tandem, ['serve', '--port', '0', '--threads', '1', ...options], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  for await (const line of createInterface({input: child.stdout})) {
    const found = /^listening on (http:\S+)$/.exec(line);
    if (found) return {url: found[1], stop: () => child.kill('SIGKILL')};
  }
  throw new Error('the server did not listen');
}
