// The changed paths of a lane, in sections: what a reviewer looks at, and apart from it what runs by itself later.

import { ask } from './ask.js';
import { count, h, plain, shown } from './dom.js';
import { Pick } from './pick.js';
import { Windowed } from './window.js';

const SIGNS = { add: ['A', 'added'], modify: ['M', 'modified'], delete: ['D', 'deleted'], mode: ['X', 'mode'], retype: ['T', 'type'], rename: ['R', 'renamed'] };
const BATCH = 100;

/** The list; `open(file)` is called when one is to be looked at. */
export function filesList(lane, changes, pick, open) {
  const counts = new Map();
  const asked = new Set();
  let rows = [];
  let wanted = '';
  let wish;

  const list = new Windowed({ rowHeight: 30, label: 'Changed files', className: 'files', row, onkey, onshown, onactive });

  const filter = h('input', { type: 'search', placeholder: 'Filter paths', 'aria-label': 'Filter paths', oninput: () => {
    wanted = filter.value.toLowerCase();
    arrange();
  } });
  const all = h('input', { type: 'checkbox', onchange: () => tickAll(all.checked) });
  const note = h('p', { class: 'quiet small' });
  const element = h('div', { class: 'files-side' }, h('div', { class: 'files-head' }, h('label', {}, all, ' All'), filter), list.element, note);

  function arrange() {
    const fits = (file) => !wanted || plain(file.name).toLowerCase().includes(wanted) || (file.from && plain(file.from).toLowerCase().includes(wanted));
    const some = changes.files.filter(fits);
    const usual = some.filter((file) => !file.guarded);
    const guarded = some.filter((file) => file.guarded);
    rows = [];
    let root = 0;
    for (const file of usual) {
      if (file.root !== root) {
        root = file.root;
        rows.push({ head: shown(changes.roots[root]) });
      }
      rows.push({ file });
    }
    if (guarded.length > 0) {
      rows.push({ head: 'Runs by itself', warn: true, title: 'These run later without being asked for. “All” never covers them: tick each that you want.' });
      guarded.forEach((file) => rows.push({ file }));
    }
    note.textContent = some.length < changes.files.length ? `${count(some.length, 'path')} of ${changes.files.length} fit the filter.` : '';
    list.set(rows.length);
    const first = rows.findIndex((line) => line.file);
    if (first >= 0) list.activate(first);
  }

  const usual = () => changes.files.filter((file) => !file.guarded);

  function tickAll(on) {
    usual().forEach((file) => pick.setWhole(file, on));
    pick.changed();
  }

  function tick(file, on) {
    pick.setWhole(file, on);
    // What lies in a directory of the list goes with it.
    if (isDir(file)) changes.files.filter((other) => !other.guarded && other.root === file.root && other.path.startsWith(`${file.path}2f`)).forEach((other) => pick.setWhole(other, on));
    pick.changed();
  }

  function row(index) {
    const line = rows[index];
    if (line.head) return h('div', { class: line.warn ? 'section warn' : 'section', title: line.title, 'aria-disabled': 'true' }, line.head);
    const { file } = line;
    const state = pick.state(file);
    const [letter, word] = SIGNS[file.kind];
    const box = h('input', { type: 'checkbox', tabindex: '-1', 'aria-label': `Take ${plain(file.name)}`, onchange: () => tick(file, box.checked) });
    box.checked = state === 'whole';
    box.indeterminate = state === 'part';
    const lines = counts.get(Pick.key(file));
    return h('div', { class: 'file', 'aria-selected': String(state !== 'none'), 'data-name': plain(file.name), title: plain(file.name), onclick: (event) => event.target !== box && show(index) },
      box,
      h('span', { class: `sign ${file.kind}`, title: word }, letter),
      h('span', { class: 'file-name' }, file.from ? [shown(file.from), ' → '] : null, shown(file.name), isDir(file) ? '/' : ''),
      file.drifted ? h('span', { class: 'tag warn', title: 'It changed in the original since the lane began.' }, `drifted: ${file.drifted}`) : null,
      lines ? tally(lines) : null);
  }

  function onkey(event, index) {
    const { file } = rows[index] ?? {};
    if (!file) return false;
    if (event.key === ' ') tick(file, pick.state(file) !== 'whole');
    else if (event.key === 'Enter') show(index, true);
    else return false;
    return true;
  }

  let soon;
  function onactive(index) {
    clearTimeout(soon);
    soon = setTimeout(() => show(index), 60);
  }

  let now;
  function show(index, focus = false) {
    clearTimeout(soon);
    const { file } = rows[index] ?? {};
    if (!file || (now === file && !focus)) return;
    now = file;
    open(file, focus);
  }

  /** Lines are counted for what is seen. */
  function onshown(first, last) {
    clearTimeout(wish);
    wish = setTimeout(async () => {
      const files = rows.slice(first, last).map((line) => line.file).filter((file) => file && !isDir(file) && !asked.has(Pick.key(file)));
      for (let at = 0; at < files.length; at += BATCH) {
        const some = files.slice(at, at + BATCH);
        some.forEach((file) => asked.add(Pick.key(file)));
        try {
          const answer = await ask({ what: 'counts', lane, files: some.map(({ root, path }) => ({ root, path })) });
          some.forEach((file, index) => counts.set(Pick.key(file), answer.counts[index]));
          list.refresh();
        } catch {
          // The file itself says what is wrong with it when it is looked at.
        }
      }
    }, 120);
  }

  pick.listeners.add(() => {
    const files = usual();
    const whole = files.filter((file) => pick.state(file) === 'whole').length;
    all.checked = files.length > 0 && whole === files.length;
    all.indeterminate = whole > 0 && whole < files.length;
    list.refresh();
  });
  all.disabled = usual().length === 0;
  arrange();

  const move = (by) => {
    let at = list.active + by;
    while (rows[at] && !rows[at].file) at += by;
    if (rows[at]) {
      list.activate(at);
      show(at);
    }
  };
  return {
    element,
    list,
    next: () => move(1),
    previous: () => move(-1),
    filter: () => filter.focus(),
    toggleAll: () => all.disabled || all.click(),
    toggleFile: () => rows[list.active]?.file && tick(rows[list.active].file, pick.state(rows[list.active].file) !== 'whole'),
  };
}

function isDir(file) {
  return (file.new ?? file.old)?.type === 'dir';
}

function tally({ added, removed, binary }) {
  if (binary) return h('span', { class: 'tally quiet' }, 'binary');
  return h('span', { class: 'tally' }, added ? h('span', { class: 'plus' }, `+${added}`) : null, removed ? h('span', { class: 'minus' }, `−${removed}`) : null);
}
