// Keep: what is ticked becomes files, a patch, a commit or a branch. The plan is shown and made anew as often as its
// shape, or what is done about conflicts, is said otherwise; what was shown is what is done.

import { ask } from './ask.js';
import { count, h, plain, shown, toast } from './dom.js';
import { ticked } from './pick.js';
import { confirm, failed, undoKeep } from './verbs.js';

const HOW = [['stop', 'leave it in the lane'], ['markers', 'take both, between markers'], ['ours', 'take the original’s'], ['theirs', 'take the lane’s']];
const SHAPES = [['files', 'files'], ['patch', 'a patch to save'], ['commit', 'a commit'], ['branch', 'a branch'], ['commits', 'the lane’s own commits']];

/** Brings what is ticked into the original, or hands it out as a patch. */
export async function keep(lane, pick, after) {
  try {
    const ticks = pick.data();
    const { plan, wish } = await settle(lane, ticks);
    if (!plan) return;
    const shape = shapeOf(wish, plan);
    const bind = (ticks, digests) => ticks.map((tick, at) => ({ ...tick, digest: digests ? digests[at] : tick.digest }));
    const with_ = further(wish).map((one, at) => ({ ...one, ticks: bind(one.ticks, plan.with_digests?.[at]) }));
    const done = await ask({ what: 'keep', lane: lane.id, conflicts: wish.how, ticks: bind(ticks, plan.digests), shape, with: with_ });
    tell(lane, wish, done, after);
    if (wish.as !== 'patch' && wish.as !== 'commits') {
      pick.clear();
      wish.with.forEach((other) => other.pick.clear());
    }
    done.said.forEach((what) => toast(shown(what), { bad: true }));
    if (done.left_out.length) toast(h('span', {}, `${count(done.left_out.length, 'path')} stayed in the lane: `, shown(done.left_out[0].name), ` (${done.left_out[0].reason})`), { bad: true });
    if (wish.as !== 'patch') after();
  } catch (error) {
    failed(error);
  }
}

function tell(lane, wish, done, after) {
  if (wish.as === 'patch') {
    save(`${plain(lane.name)}.patch`, done.patch);
    toast('The patch is with the browser. Nothing was written into the project.');
    return;
  }
  if (wish.as === 'files') {
    toast(h('span', {}, `${count(done.steps.length, 'step')} done in `, shown(done.origin), '.'), done.id ? { action: 'Undo…', act: () => undoKeep(done.id, after) } : {});
    return;
  }
  const back = done.undo ? [' To take it back: ', h('code', {}, done.undo.flatMap((word, at) => (at ? [' ', shown(word)] : [shown(word)])))] : null;
  const line = toast(h('span', {}, 'Branch ', shown(done.branch), ' stands at ', h('code', {}, done.commit), '.', back), { stays: true });
  line.classList.add('committed');
}

/** Hands bytes to the browser as a file to be saved. */
function save(name, hex) {
  const bytes = new Uint8Array(hex.length / 2);
  for (let at = 0; at < bytes.length; at += 1) bytes[at] = parseInt(hex.substr(at * 2, 2), 16);
  const url = URL.createObjectURL(new Blob([bytes], { type: 'application/octet-stream' }));
  const link = h('a', { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** What is ticked in other lanes and comes along, as the server takes it. */
function further(wish) {
  return wish.as === 'commits' ? [] : wish.with.map((other) => ({ lane: other.lane.id, ticks: other.pick.data() }));
}

/** As the server takes it. */
function shapeOf({ as, name, to, message }, plan) {
  if (as === 'commit') return { as, to: to || null, message };
  if (as === 'branch') return { as, name, message };
  if (as === 'commits') return { as, name, tip: plan?.tip ?? null };
  return { as };
}

/** Plans, and plans again as often as it is said otherwise what is wanted. */
async function settle(lane, ticks) {
  const others = ticked(lane.id);
  let wish = { as: 'files', how: 'stop', name: plain(lane.name), to: '', message: '', with: others };
  for (;;) {
    let plan = null;
    let trouble = null;
    try {
      plan = await ask({ what: 'plan-keep', lane: lane.id, ticks, conflicts: wish.how, shape: shapeOf(wish), with: further(wish) });
    } catch (error) {
      // What is wrong with one shape need not be wrong with another.
      if (wish.as === 'files' || !error.said) throw error;
      trouble = error;
    }
    const nothing = !plan || (plan.steps.length === 0 && !plan.commits?.length) || plan.too_long;
    const last = wish;
    const body = (end) => [choice(last, end), fields(last, end), along(last, others, end), trouble ? trouble_of(trouble) : facts(plan, last, end)];
    const answer = await confirm({ title: `Keep from lane ${plain(lane.name)}?`, body, action: wish.as === 'patch' ? 'Save' : 'Keep', disabled: nothing });
    if (!answer) return {};
    if (answer === true) return { plan, wish };
    wish = { ...wish, ...answer };
  }
}

function trouble_of(error) {
  return h('div', { class: 'problem', role: 'alert' }, h('p', {}, shown(error.said.message)), error.said.causes.map((cause) => h('p', { class: 'quiet' }, shown(cause))), error.said.hint ? h('p', { class: 'quiet' }, shown(error.said.hint)) : null);
}

/** What it becomes. */
function choice(wish, end) {
  return h('div', { class: 'choice shapes', role: 'radiogroup', 'aria-label': 'Keep as' }, h('span', { class: 'quiet' }, 'as'), SHAPES.map(([as, words]) => {
    const box = h('input', { type: 'radio', name: 'shape', value: as, onchange: () => end({ as, how: as === 'commits' ? 'stop' : wish.how }) });
    box.checked = as === wish.as;
    return h('label', {}, box, ` ${words}`);
  }));
}

/** The other lanes in which something is ticked: all of it is kept in one go, or without them. */
function along(wish, others, end) {
  if (!others.length || wish.as === 'commits') return null;
  return h('fieldset', { class: 'along' }, h('legend', {}, 'in one go with what is ticked in'), others.map((other) => {
    const box = h('input', { type: 'checkbox', name: 'with', value: other.lane.id, onchange: () => end({ with: others.filter((one) => (one === other ? box.checked : wish.with.includes(one))) }) });
    box.checked = wish.with.includes(other);
    return h('label', {}, box, h('span', {}, shown(other.lane.name), ` (${count(other.pick.files.size, 'path')})`));
  }));
}

/** The words that a shape needs; each is planned with once it is whole. */
function fields(wish, end) {
  const field = (name, label, hint) => {
    const box = h('input', { type: 'text', name, value: wish[name], placeholder: hint, spellcheck: 'false', onchange: () => end({ [name]: box.value }) });
    return h('label', { class: 'field' }, h('span', {}, label), box);
  };
  const message = () => field('message', 'message', 'made from what is committed');
  if (wish.as === 'commit') return [field('to', 'branch', 'the one that is checked out'), message()];
  if (wish.as === 'branch') return [field('name', 'branch', 'its name'), message()];
  if (wish.as === 'commits') return [field('name', 'branch', 'its name'), h('p', { class: 'quiet' }, 'All commits that were made in the lane, as they are; what is ticked chooses nothing of them.')];
  return null;
}

/** The plan. */
function facts(plan, wish, end) {
  const words = {
    files: () => [`${count(plan.steps.length, 'step')} into `, h('code', {}, shown(plan.origin)), ` (${plan.bytes}), all of them or none:`],
    patch: () => [`A patch of ${count(plan.steps.length, 'path')} (${plan.bytes}) for `, h('code', {}, 'git apply'), '; nothing is written into the project:'],
  }[wish.as] ?? (() => [plan.commits.length ? `${count(plan.commits.length, 'commit')} as branch ` : 'A commit on ', h('code', {}, shown(plan.branch)), plan.with_files ? ', with the files in the project:' : ', whose files are not touched:']);
  return [
    plan.said.map((what) => h('p', { class: 'warn-word' }, shown(what))),
    plan.too_long ? h('p', { class: 'bad-word' }, 'The patch is too long for the page: ', h('code', {}, 'lane keep --as patch --output FILE'), ' writes it.') : null,
    plan.steps.length === 0 && !plan.commits?.length ? h('p', {}, 'Nothing of it can be kept like that.') : h('p', {}, words()),
    plan.commits?.length ? h('ul', { class: 'commits' }, plan.commits.map((commit) => h('li', {}, h('code', {}, commit.id), ' ', shown(commit.subject)))) : null,
    plan.commit && !plan.commits.length ? h('p', { class: 'quiet' }, 'message: ', shown(plan.message)) : null,
    h('ul', { class: 'steps' }, plan.steps.map((step) => h('li', {}, h('span', { class: `sign ${step.what}` }, step.what), h('span', {}, step.root ? [shown(step.root), '/'] : null, step.from ? [shown(step.from), ' → '] : null, shown(step.name), step.part ? h('span', { class: 'quiet' }, ' in part') : null, step.lanes?.length ? h('span', { class: 'quiet' }, ' of ', step.lanes.flatMap((name, at) => (at ? [' + ', shown(name)] : [shown(name)]))) : null)))),
    plan.merged.length ? [h('p', {}, `${count(plan.merged.length, 'file')} put together with what changed in the original:`), h('ul', { class: 'merged' }, plan.merged.map((one) => h('li', {}, shown(one.name))))] : null,
    conflicts(plan, wish, end),
    plan.checks.map((check) => h('p', {}, 'It is checked first, in a fork of the lane, with ', h('code', {}, shown(check.command)), h('span', { class: 'quiet' }, ' (keep.verify of ', shown(check.file), ')'))),
    plan.lost?.length ? [h('p', { class: 'warn-word' }, 'To be known:'), h('ul', { class: 'lost' }, plan.lost.map((one) => h('li', {}, shown(one.name), ': ', shown(one.what))))] : null,
    plan.other_branches?.length ? h('p', { class: 'warn-word' }, 'These branches of the lane have commits, too, which do not come: ', plan.other_branches.flatMap((name, at) => (at ? [', ', shown(name)] : [shown(name)]))) : null,
    left(plan),
  ];
}

function conflicts(plan, wish, end) {
  // A commit lists what stays in the lane, and settles by the same words.
  const commits = wish.as === 'commit' || wish.as === 'branch';
  const stopped = commits && plan.left_out.some((one) => one.why === 'conflict');
  if (!plan.conflicts.length && !stopped && (wish.how === 'stop' || wish.as === 'commits')) return null;
  return h('fieldset', { class: 'conflicts' }, h('legend', {}, plan.conflicts.length ? `${count(plan.conflicts.length, 'conflict')} with the original` : 'conflicts with the original'),
    h('ul', {}, plan.conflicts.map((one) => h('li', {}, shown(one.name), ': ', shown(one.clash), one.settled ? h('span', { class: 'quiet' }, ` (${HOW.find(([word]) => word === one.settled)?.[1] ?? one.settled})`) : null))),
    h('div', { class: 'choice' }, HOW.map(([word, words]) => {
      const box = h('input', { type: 'radio', name: 'conflicts', value: word, onchange: () => end({ how: word }) });
      box.checked = word === wish.how;
      return h('label', {}, box, ` ${words}`);
    })));
}

/** What stays in the lane, each with the reason. */
function left(plan) {
  return [
    plan.left_out.length ? [h('p', { class: 'warn-word' }, `${count(plan.left_out.length, 'path')} left out:`), h('ul', { class: 'left-out' }, plan.left_out.map((one) => h('li', {}, shown(one.name), ` (${one.reason}`, plain(one.detail) ? [': ', shown(one.detail)] : null, one.lane ? [', of lane ', shown(one.lane)] : null, ')')))] : null,
    plan.set_id_dropped.map((name) => h('p', { class: 'warn-word' }, shown(name), ' is kept without its set-id bit.')),
  ];
}
