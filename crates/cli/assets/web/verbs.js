// The verbs as buttons, but for keep: each shows its plan first, and says afterwards what was done.

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

/** Says that something was not done. */
export const failed = (error) => toast(problem(error), { bad: true });

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

/** Checks a lane with a command that the policy or its last verdict names. */
export async function verify(lane, after) {
  try {
    const { known } = await ask({ what: 'plan-verify', lane: lane.id });
    let chosen = 0;
    const line = (check, at) => {
      const box = h('input', { type: 'radio', name: 'check', value: String(at), onchange: () => (chosen = at) });
      box.checked = at === 0;
      return h('li', {}, h('label', {}, box, ' ', h('code', {}, shown(check.words)), h('span', { class: 'quiet' }, check.file ? [' keep.verify of ', shown(check.file.path), `:${check.file.line}`] : ' as the last verdict')));
    };
    const body = known.length === 0
      ? [h('p', {}, 'Neither the policy nor an earlier verdict names a command for this lane.'), h('p', { class: 'quiet' }, 'A page does not say what is run: ', h('code', {}, 'lane verify LANE -- CMD'), ' in a shell does, and names it for here.')]
      : [h('p', {}, 'It runs behind the lane’s walls, in a view of the lane that is gone afterwards.'), h('ul', { class: 'checks' }, known.map(line))];
    if (!(await confirm({ title: `Check lane ${plain(lane.name)}?`, body, action: 'Check', disabled: known.length === 0 }))) return;
    const { command } = known[chosen];
    const going = toast(h('span', {}, 'Lane ', shown(lane.name), ' is being checked…'), { stays: true });
    const done = await ask({ what: 'verify', lane: lane.id, command }).finally(() => going.remove());
    const word = done.verdict.word;
    toast(h('span', {}, 'Lane ', shown(lane.name), `: ${word}`, done.verdict.end ? ` (${done.verdict.end})` : '', done.last ? [' · ', shown(done.last)] : null), { bad: word !== 'pass' });
    done.said.forEach((what) => toast(shown(what), { bad: true }));
  } catch (error) {
    failed(error);
  }
  after();
}
