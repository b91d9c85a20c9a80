// Every command on a run: what it does, when it makes sense, its request and its command line.
import { ended } from '../lib/status.js';
import { shell } from '../lib/text.js';
import { cli } from '../ui/bits.js';

/**
 * @typedef {object} Command
 * @property {string} id the route's and the command's name
 * @property {string} name on the button
 * @property {string} help
 * @property {'run' | 'node' | 'both'} on
 * @property {(run: any, node: any) => boolean} fits
 * @property {string[]} fields what its form asks for, besides the reason
 * @property {boolean} [danger]
 * @property {boolean} [preview] a dry run comes first
 * @property {(values: any) => string} words after the run on the command line
 */

const open = (/** @type {any} */ run) => !ended(run.status);
const json = (/** @type {any} */ value) => shell(JSON.stringify(value ?? null));

/** @type {Command[]} */
export const COMMANDS = [
  {
    id: 'signal',
    name: 'Signal',
    help: 'Gives the run a signal that a node waits for.',
    on: 'both',
    fields: ['signal'],
    fits: (run, node) => open(run) && (node ? Boolean(node.signal) && node.status === 'Waiting' : true),
    words: (v) => ` ${shell(v.name ?? '')} ${json(v.payload)}`,
  },
  {
    id: 'reattempt',
    name: 'Reattempt',
    help: 'Tries failed or cancelled nodes again; what was blocked by them runs after them.',
    on: 'both',
    fields: ['nodes'],
    preview: true,
    fits: (run, node) => (node ? ['Failed', 'Cancelled'].includes(node.status) : ['Failed', 'Cancelled'].includes(run.status)),
    words: (v) => (v.nodes ?? []).map((/** @type {string} */ n) => ` ${shell(n)}`).join(''),
  },
  {
    id: 'fork',
    name: 'Fork',
    help: 'Starts a new run from this one: the chosen nodes and everything after them run again, other results are reused.',
    on: 'both',
    fields: ['fork'],
    preview: true,
    fits: (run, node) => (node ? !node.inBody : true) && run.status !== 'Pending',
    words: (v) =>
      `${(v.from ?? []).map((/** @type {string} */ n) => ` --from ${shell(n)}`).join('')}${Object.entries(v.set ?? {})
        .map(([k, x]) => ` --set ${shell(`${k}=${JSON.stringify(x)}`)}`)
        .join('')}${v.newest ? ' --newest' : ''}${v.reuseCompensated ? ' --reuse-compensated' : ''}`,
  },
  {
    id: 'pause',
    name: 'Pause',
    help: 'Starts no more nodes, in child runs neither; running attempts end.',
    on: 'run',
    fields: [],
    fits: (run) => open(run) && run.status !== 'Paused',
    words: () => '',
  },
  {
    id: 'resume',
    name: 'Resume',
    help: 'Carries the paused run on.',
    on: 'run',
    fields: [],
    fits: (run) => run.status === 'Paused',
    words: () => '',
  },
  {
    id: 'skip',
    name: 'Skip',
    help: 'Counts the node as succeeded, with null as its output.',
    on: 'node',
    fields: [],
    preview: true,
    fits: (run, node) => open(run) && node && !['Succeeded', 'Skipped'].includes(node.status),
    words: (v) => ` ${shell(v.node ?? '')}`,
  },
  {
    id: 'set-result',
    name: 'Set result',
    help: "Sets the node's output by hand; a running attempt is abandoned.",
    on: 'node',
    fields: ['output'],
    preview: true,
    fits: (run, node) => open(run) && node && !['Succeeded', 'Skipped'].includes(node.status),
    words: (v) => ` ${shell(v.node ?? '')} ${json(v.output)}`,
  },
  {
    id: 'compensate',
    name: 'Compensate',
    help: 'Undoes what succeeded in a run that has ended, in reverse order.',
    on: 'run',
    fields: ['compensation'],
    preview: true,
    fits: (run) => ended(run.status) && run.compensation !== 'complete',
    words: (v) =>
      `${(v.retry ?? []).map((/** @type {string} */ n) => ` --retry ${shell(n)}`).join('')}${(v.skip ?? []).map((/** @type {string} */ n) => ` --skip ${shell(n)}`).join('')}`,
  },
  {
    id: 'cancel',
    name: 'Cancel',
    help: 'Ends the run and its child runs; running work is told to stop.',
    on: 'run',
    danger: true,
    fields: ['compensate'],
    fits: open,
    words: (v) => (v.compensate ? ' --compensate' : ''),
  },
];

/** What the command line would be. @param {Command} command @param {string} run @param {any} values */
export function commandWords(command, run, values) {
  return cli(`${command.id} ${run}${command.words(values)}${values.reason ? ` --reason ${shell(values.reason)}` : ''}`);
}
