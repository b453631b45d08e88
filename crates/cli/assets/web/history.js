// The history of a lane: every snapshot on every branch, and the ways back and forth.

import { ask } from './ask.js';
import { age, button, h, plain, problem, shown, toast } from './dom.js';
import { cell, layout } from './graph.js';
import { confirm } from './verbs.js';
import { Windowed } from './window.js';

const HEIGHT = 34;

export async function historyTab(lane, body, view) {
  const back = button('Undo', { title: 'One step back (u)' }, () => go('back', 'one step back'));
  const forth = button('Redo', { title: 'Forth again (r)' }, () => go('forth', 'forth again'));
  const notes = h('div', {});
  let snapshots = [];
  let places = [];
  const list = new Windowed({ rowHeight: HEIGHT, label: 'Snapshots', className: 'history', row, onkey: (event, index) => event.key === 'Enter' && (restore(snapshots[index]), true) });

  function row(index) {
    const snapshot = snapshots[index];
    return h('div', { class: snapshot.here ? 'snapshot here' : 'snapshot', 'aria-selected': String(snapshot.here), 'data-snapshot': snapshot.short },
      cell(snapshot, places[index], HEIGHT),
      h('code', {}, snapshot.short), h('span', { class: 'quiet' }, age(snapshot.at, Date.now())), h('span', {}, snapshot.how),
      h('span', { class: 'grow snapshot-text' }, shown(snapshot.text), snapshot.credentials ? h('span', { class: 'warn-word' }, ` ${snapshot.credentials} like credentials`) : null, snapshot.gaps ? h('span', { class: 'warn-word' }, ` ${snapshot.gaps} not in it`) : null),
      h('span', { class: 'quiet holds' }, snapshot.holds),
      snapshot.here ? h('span', { class: 'tag' }, 'here') : button('Restore…', { tabindex: '-1', 'aria-label': `Restore ${snapshot.short}` }, () => restore(snapshot)));
  }

  async function load() {
    const answer = await ask({ what: 'history', lane });
    ({ snapshots } = answer);
    places = layout(snapshots);
    notes.replaceChildren(
      ...answer.damaged.map((what) => h('p', { class: 'bad-word' }, 'A part of the history cannot be read: ', shown(what))),
      ...(answer.missed ? [h('p', { class: 'warn-word' }, `${age(answer.missed.at, Date.now())} ago: `, shown(answer.missed.why))] : []),
      ...(snapshots.length ? [] : [h('p', { class: 'quiet empty' }, 'No snapshot yet. A lane gets one when its command ends.')]));
    back.disabled = snapshots.length === 0;
    forth.disabled = snapshots.length === 0;
    list.set(snapshots.length, { keep: list.count > 0 });
  }

  async function move(to, yes) {
    try {
      const answer = await ask({ what: 'go-back', lane, to, yes });
      toast(h('span', {}, `The lane stands at ${answer.to.short} `, shown(answer.to.text), `: ${answer.changed} changed, ${answer.removed} removed.`));
      if (answer.left.length) toast(h('span', {}, `${answer.left.length} could not be put back: `, shown(answer.left[0].path), ': ', shown(answer.left[0].why)), { bad: true });
    } catch (error) {
      const much = error.said && !yes && /removes \d+ of the/.test(plain(error.said.message));
      if (much && await confirm({ title: 'Remove most of it?', body: [problem(error), h('p', {}, 'What is removed stays in the history.')], action: 'Go back', danger: true })) return move(to, true);
      if (!much) toast(problem(error), { bad: true });
    }
    return load();
  }

  async function go(to, words) {
    if (await confirm({ title: `Put the lane ${words}?`, body: [h('p', {}, 'Only the lane is put back; the project stays as it is. What the lane holds now stays in its history.')], action: 'Go' })) await move(to, false);
  }

  async function restore(snapshot) {
    if (snapshot.here) return;
    const body = [h('p', {}, 'Put the lane back to ', h('code', {}, snapshot.short), ' ', shown(snapshot.text), ` (${snapshot.holds}).`), h('p', { class: 'quiet' }, 'Only the lane is put back; the project stays as it is. What the lane holds now stays in its history.')];
    if (await confirm({ title: 'Restore this snapshot?', body, action: 'Restore' })) await move({ snapshot: snapshot.id }, false);
  }

  body.replaceChildren(h('div', { class: 'bar' }, back, forth), notes, list.element);
  await load();
  Object.assign(view.keys, { u: () => back.disabled || back.click(), r: () => forth.disabled || forth.click() });
}
