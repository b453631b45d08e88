// The verbs as buttons: each shows its plan first, and says afterwards what was done.

import { ask } from './ask.js';
import { button, count, h, plain, problem, shown, toast } from './dom.js';

/** A question with its facts; true where the answer is yes. Esc is no. */
export function confirm({ title, body, action, danger = false, disabled = false }) {
  return new Promise((done) => {
    let yes = false;
    // A body that is a function may end the question itself, with an answer of its own.
    const end = (answer) => {
      yes = answer;
      dialog.close();
    };
    const go = action ? button(action, { class: danger ? 'danger primary' : 'primary', id: 'confirm', disabled }, () => {
      yes = true;
      dialog.close();
    }) : null;
    const cancel = button(action ? 'Cancel' : 'Close', { id: 'cancel' }, () => dialog.close());
    const dialog = h('dialog', { 'aria-label': title }, h('h2', {}, title), h('div', { class: 'dialog-body' }, typeof body === 'function' ? body(end) : body), h('div', { class: 'buttons' }, cancel, go));
    dialog.addEventListener('close', () => {
      dialog.remove();
      done(yes);
    });
    document.body.append(dialog);
    dialog.showModal();
    // What cannot be taken back easily is not one key away.
    (danger || !go || disabled ? cancel : go).focus();
  });
}

const failed = (error) => toast(problem(error), { bad: true });

/** Brings what is ticked into the original. */
export async function keep(lane, changes, pick, after) {
  try {
    const ticks = pick.data();
    const { plan, how } = await settle(lane, ticks);
    if (!plan) return;
    const done = await ask({ what: 'keep', lane: lane.id, conflicts: how, ticks: ticks.map((tick, at) => ({ ...tick, digest: plan.digests[at] })) });
    toast(h('span', {}, `${count(done.steps.length, 'step')} done in `, shown(done.origin), '.'), done.id ? { action: 'Undo…', act: () => undoKeep(done.id, after) } : {});
    done.said.forEach((what) => toast(shown(what), { bad: true }));
    if (done.left_out.length) toast(h('span', {}, `${count(done.left_out.length, 'path')} stayed in the lane: `, shown(done.left_out[0].name), ` (${done.left_out[0].reason})`), { bad: true });
    after();
  } catch (error) {
    failed(error);
  }
}

const HOW = [['stop', 'leave it in the lane'], ['markers', 'take both, between markers'], ['ours', 'take the original’s'], ['theirs', 'take the lane’s']];

/** Plans, and plans again as often as it is said otherwise what is to be done about conflicts. */
async function settle(lane, ticks) {
  let how = 'stop';
  for (;;) {
    const plan = await ask({ what: 'plan-keep', lane: lane.id, ticks, conflicts: how });
    const nothing = plan.steps.length === 0;
    const body = (end) => [
      plan.said.map((what) => h('p', { class: 'warn-word' }, shown(what))),
      nothing ? h('p', {}, 'Nothing of it can be kept like that.') : h('p', {}, `${count(plan.steps.length, 'step')} into `, h('code', {}, shown(plan.origin)), ` (${plan.bytes}), all of them or none:`),
      h('ul', { class: 'steps' }, plan.steps.map((step) => h('li', {}, h('span', { class: `sign ${step.what}` }, step.what), h('span', {}, step.root ? [shown(step.root), '/'] : null, step.from ? [shown(step.from), ' → '] : null, shown(step.name), step.part ? h('span', { class: 'quiet' }, ' in part') : null)))),
      plan.merged.length ? [h('p', {}, `${count(plan.merged.length, 'file')} put together with what changed in the original:`), h('ul', { class: 'merged' }, plan.merged.map((one) => h('li', {}, shown(one.name))))] : null,
      plan.conflicts.length ? h('fieldset', { class: 'conflicts' }, h('legend', {}, `${count(plan.conflicts.length, 'conflict')} with the original`),
        h('ul', {}, plan.conflicts.map((one) => h('li', {}, shown(one.name), ': ', shown(one.clash), one.settled ? h('span', { class: 'quiet' }, ` (${HOW.find(([word]) => word === one.settled)?.[1] ?? one.settled})`) : null))),
        h('div', { class: 'choice' }, HOW.map(([word, words]) => {
          const box = h('input', { type: 'radio', name: 'conflicts', value: word, onchange: () => end({ how: word }) });
          box.checked = word === how;
          return h('label', {}, box, ` ${words}`);
        }))) : null,
      plan.checks.map((check) => h('p', {}, 'It is checked first, in a fork of the lane, with ', h('code', {}, shown(check.command)), h('span', { class: 'quiet' }, ' (keep.verify of ', shown(check.file), ')'))),
      left(plan),
    ];
    const answer = await confirm({ title: `Keep from lane ${plain(lane.name)}?`, body, action: 'Keep', disabled: nothing });
    if (!answer) return {};
    if (answer === true) return { plan, how };
    ({ how } = answer);
  }
}

/** Puts the project back to what it was before a keep. */
export async function undoKeep(keep, after) {
  try {
    const plan = await ask({ what: 'plan-undo-keep', keep });
    const edited = plan.edited.length > 0;
    const body = [
      h('p', {}, edited ? 'It cannot be undone: these were edited since, and nothing is written over your edits.' : 'The project is put back to what it was before the keep, all of it or nothing:'),
      h('ul', { class: 'steps' }, edited ? plan.edited.map((name) => h('li', {}, shown(name))) : plan.steps.map((step) => h('li', {}, h('span', { class: 'sign' }, step.what), shown(step.name)))),
    ];
    if (!(await confirm({ title: `Undo the keep from lane ${plain(plan.keep.lane)}?`, body, action: 'Undo', disabled: edited }))) return;
    const done = await ask({ what: 'undo-keep', keep });
    toast(`${count(done.steps.length, 'step')} undone. The lane shows its changes again.`);
    after();
  } catch (error) {
    failed(error);
  }
}

/** What stays in the lane, each with the reason. */
function left(plan) {
  return [
    plan.left_out.length ? [h('p', { class: 'warn-word' }, `${count(plan.left_out.length, 'path')} left out:`), h('ul', { class: 'left-out' }, plan.left_out.map((one) => h('li', {}, shown(one.name), ` (${one.reason}`, plain(one.detail) ? [': ', shown(one.detail)] : null, ')')))] : null,
    plan.set_id_dropped.map((name) => h('p', { class: 'warn-word' }, shown(name), ' is kept without its set-id bit.')),
  ];
}

/** Writes the result beside the project. */
export async function exportLane(lane) {
  try {
    const plan = await ask({ what: 'plan-export', lane: lane.id });
    const body = [h('p', {}, 'Everything that the lane shows is written to'), h('ul', {}, plan.targets.map((target) => h('li', {}, h('code', {}, shown(target))))), h('p', { class: 'quiet' }, 'Nothing is overwritten, and the project stays as it is.')];
    if (!(await confirm({ title: `Export lane ${plain(lane.name)}?`, body, action: 'Export' }))) return;
    const done = await ask({ what: 'export', lane: lane.id, target: plan.target });
    toast(h('span', {}, `${count(done.files, 'file')}, ${done.bytes} written to `, shown(done.target)));
    if (done.left_out.length) toast(h('span', {}, `${count(done.left_out.length, 'path')} left out: `, shown(done.left_out[0].path), ': ', shown(done.left_out[0].why)), { bad: true });
  } catch (error) {
    failed(error);
  }
}

/** What exists nowhere else. */
function lost(only) {
  if (only.unknown) return h('p', { class: 'warn-word' }, 'It could not be told what of it exists nowhere else: ', shown(only.unknown));
  const said = [];
  if (only.changes) {
    const more = only.changes - only.first.length;
    said.push(h('li', {}, `${count(only.changes, 'change')}: `, only.first.flatMap((path, at) => (at ? [', ', shown(path)] : [shown(path)])), more ? ` and ${more} more` : ''));
  }
  only.commits.forEach((commit) => said.push(h('li', {}, 'commit ', h('code', {}, shown(commit.id)), ' (', shown(commit.name), ')')));
  if (only.home) said.push(h('li', {}, `${only.home} in its $HOME`));
  if (!said.length) return h('p', {}, 'All that it changed exists elsewhere: in the project, in an export, or in a commit.');
  return h('div', { class: 'only-here' }, h('p', { class: 'warn-word' }, 'Nowhere else:'), h('ul', {}, said));
}

/** Drops a lane into the trash. */
export async function discard(lane, after) {
  try {
    const plan = await ask({ what: 'plan-discard', lane: lane.id });
    const live = plan.lane.state === 'live';
    const body = [
      h('p', {}, 'Dropped with it: ', plan.counts.words, plan.home_changes ? `, ${plan.home_changes} in $HOME` : '', '.'),
      lost(plan.only_here),
      live ? h('p', { class: 'warn-word' }, 'Something runs in it, and is ended first.') : null,
      h('p', { class: 'quiet' }, 'It goes to the trash, from where it can be recovered for a while.'),
    ];
    if (!(await confirm({ title: `Discard lane ${plain(lane.name)}?`, body, action: 'Discard', danger: true }))) return;
    await ask({ what: 'discard', lane: lane.id, stop: live });
    toast(h('span', {}, 'Lane ', shown(lane.name), ' is in the trash.'), { action: 'Recover', act: async () => {
      try {
        await ask({ what: 'recover', lane: lane.id });
        toast(h('span', {}, 'Lane ', shown(lane.name), ' is back.'));
      } catch (error) {
        failed(error);
      }
      after();
    } });
    after();
  } catch (error) {
    failed(error);
  }
}

/** Ends what runs in a lane. */
export async function stop(lane, after) {
  if (!(await confirm({ title: `Stop lane ${plain(lane.name)}?`, body: [h('p', {}, 'Everything that runs in it is ended. What it wrote stays.')], action: 'Stop' }))) return;
  try {
    await ask({ what: 'stop', lane: lane.id });
    toast(h('span', {}, 'Nothing runs in lane ', shown(lane.name), ' any more.'));
  } catch (error) {
    failed(error);
  }
  after();
}
