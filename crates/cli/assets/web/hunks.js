// The hunks of one file as a windowed list: heads and lines, each of which can be ticked.

import { button, count, h, plain, shown, size } from './dom.js';
import { flags } from './pick.js';
import { Windowed } from './window.js';

// A line that is longer is cut at first, with a button that says how much more there is.
const LONG = 2000;
const WORDS = { add: 'added', modify: 'modified', delete: 'deleted', mode: 'mode changed', retype: 'type changed', rename: 'renamed' };

/** The rows of a line diff: flags, heads and lines, with their numbers. */
function rowsOf(file, content, pick) {
  const rows = [];
  if (pick && content.hunks.length > 0) {
    const { rename, mode } = flags(file);
    if (rename) rows.push({ flag: 'rename' });
    if (mode) rows.push({ flag: 'mode' });
  }
  let columns = 0;
  for (const hunk of content.hunks) {
    rows.push({ hunk });
    let [before, after, changed] = [hunk.old_start, hunk.new_start, 0];
    for (let at = 0; at < hunk.lines.length; at += 1) {
      const kind = hunk.kinds[at];
      const line = { hunk, at, kind };
      if (kind !== '+') line.before = before++;
      if (kind !== '-') line.after = after++;
      if (kind !== ' ') line.number = changed += 1;
      rows.push(line);
      columns = Math.max(columns, Math.min(LONG, plain(hunk.lines[at]).length));
    }
    hunk.changed = changed;
  }
  return { rows, columns };
}

/** The pane; without `pick` nothing can be ticked. */
export function hunksPane(label) {
  let [file, content, pick, rows] = [null, null, null, []];
  const expanded = new Set();
  const list = new Windowed({ rowHeight: 22, label, className: 'hunks', row, onkey });
  const head = h('div', { class: 'pane-head' });
  const notes = h('div', { class: 'pane-notes' });
  const element = h('section', { class: 'pane' }, head, notes, list.element);

  function row(index) {
    const line = rows[index];
    if (line.flag) return flagRow(line.flag);
    if (line.at === undefined) return headRow(line.hunk, index);
    return lineRow(line, index);
  }

  function flagRow(name) {
    const on = pick.flag(file, name);
    const words = name === 'rename' ? ['the new name: ', shown(file.from), ' → ', shown(file.name)] : [`the new mode: ${file.old.mode} → ${file.new.mode}`];
    return h('div', { class: 'hunk-head', 'aria-selected': String(on) }, tickBox(on, false, `Take the new ${name}`, () => pick.setFlag(file, content, name, !on)), h('span', {}, words));
  }

  function headRow(hunk) {
    const taken = pick ? pick.hunk(file, hunk.id) : 'none';
    const place = `@@ −${hunk.old_start},${hunk.old_len} +${hunk.new_start},${hunk.new_len} @@`;
    return h('div', { class: 'hunk-head', 'data-hunk': hunk.id, 'aria-selected': pick ? String(taken !== 'none') : undefined },
      pick ? tickBox(taken === 'all', taken !== 'all' && taken !== 'none', `Take hunk ${hunk.id}`, () => pick.setHunk(file, content, hunk, taken !== 'all')) : null,
      h('span', { class: 'place' }, place), h('span', { class: 'quiet' }, ` ${hunk.id}`));
  }

  function lineRow(line, index) {
    const { hunk, at, kind } = line;
    const mark = hunk.marks[at];
    const taken = pick && line.number ? isTaken(line) : undefined;
    const box = taken === undefined ? h('span', { class: 'line-tick' }) : h('span', { class: taken ? 'line-tick on' : 'line-tick off', title: 'Take this line', onclick: () => toggleLine(line) });
    const text = hunk.lines[at];
    const body = h('span', { class: 'line-text' });
    const cut = plain(text).length > LONG && !expanded.has(index) ? cutAt(text, LONG) : null;
    body.append(shown(cut ? cut.text : text));
    if (cut) body.append(button(`… ${cut.more.toLocaleString('en')} more characters`, { class: 'link', tabindex: '-1' }, () => {
      expanded.add(index);
      list.refresh();
    }));
    if (mark === '2' || mark === '3') body.append(h('span', { class: 'quiet' }, ' ⃠ no newline at the end'));
    const flagged = mark === '1' || mark === '3';
    return h('div', { class: `line ${kind === '+' ? 'plus' : kind === '-' ? 'minus' : 'same'}${flagged ? ' flagged' : ''}`, 'aria-selected': taken === undefined ? undefined : String(taken) },
      box,
      h('span', { class: 'number' }, line.before ?? ''), h('span', { class: 'number' }, line.after ?? ''),
      h('span', { class: 'line-sign', title: flagged ? 'It holds characters that cannot be seen, or act on what shows them.' : undefined }, flagged ? '!' : '', kind === '-' ? '−' : kind), body);
  }

  function isTaken(line) {
    const taken = pick.hunk(file, line.hunk.id);
    return taken === 'all' || (taken !== 'none' && taken.has(line.number));
  }

  function toggleLine(line) {
    pick.setLine(file, content, line.hunk, line.number, line.hunk.changed, !isTaken(line));
  }

  function onkey(event, index) {
    const line = rows[index];
    if (!line || !pick || (event.key !== ' ' && event.key !== 'Enter')) return false;
    if (line.flag) pick.setFlag(file, content, line.flag, !pick.flag(file, line.flag));
    else if (line.at === undefined) pick.setHunk(file, content, line.hunk, pick.hunk(file, line.hunk.id) !== 'all');
    else if (line.number) toggleLine(line);
    return true;
  }

  /** Shows a file's line diff. */
  function show(aFile, aContent, aPick, title) {
    [file, content, pick] = [aFile, aContent, aPick];
    expanded.clear();
    head.replaceChildren(...title);
    const remarks = content.notes.map((note) => h('p', { class: 'warn-word' }, note));
    if (content.hunks.some((hunk) => /[13]/.test(hunk.marks))) remarks.push(h('p', { class: 'warn-word' }, 'Lines marked ! hold characters that cannot be seen, or act on what shows them.'));
    if (content.binary) remarks.push(h('p', { class: 'quiet' }, 'Its content is binary, or very large; it differs.'));
    else if (content.hunks.length === 0) remarks.push(h('p', { class: 'quiet' }, 'No line differs.'));
    notes.replaceChildren(...remarks);
    const made = rowsOf(file, content, pick);
    rows = made.rows;
    list.element.hidden = rows.length === 0;
    list.set(rows.length, { columns: made.columns + 16 });
  }

  function clear(...children) {
    [content, rows] = [null, []];
    head.replaceChildren();
    notes.replaceChildren(...children);
    list.element.hidden = true;
    list.set(0);
  }

  const heads = () => rows.flatMap((line, at) => (line.at === undefined ? [at] : []));
  return {
    element,
    list,
    show,
    clear,
    refresh: () => content && list.refresh(),
    next: () => {
      const to = heads().find((at) => at > list.active);
      if (to !== undefined) list.goTo(to);
      list.element.focus({ preventScroll: true });
    },
    previous: () => {
      const to = heads().findLast((at) => at < list.active);
      if (to !== undefined) list.goTo(to);
      list.element.focus({ preventScroll: true });
    },
    toggle: () => onkey({ key: ' ' }, list.active),
  };
}

function tickBox(on, part, label, onchange) {
  const box = h('input', { type: 'checkbox', tabindex: '-1', 'aria-label': label, onchange });
  box.checked = on;
  box.indeterminate = part;
  return box;
}

function cutAt(text, most) {
  const all = plain(text).length;
  const parts = typeof text === 'string' ? [text] : text;
  const kept = [];
  let left = most;
  for (const part of parts) {
    if (left <= 0) break;
    kept.push(part.slice(0, left));
    left -= part.length;
  }
  return { text: typeof text === 'string' ? kept[0] : kept, more: all - most };
}

/** What is to be known of a change besides its lines. */
export function facts(file) {
  const said = [h('span', { class: `word ${file.kind}` }, WORDS[file.kind])];
  const { old: before, new: after } = file;
  if (before && after && before.type !== after.type) said.push(`${before.type} → ${after.type}`);
  else if (before && after && before.mode !== after.mode && after.type !== 'symlink') said.push(`mode ${before.mode} → ${after.mode}`);
  if (after?.type === 'symlink') said.push(h('span', {}, '→ ', shown(after.target)));
  else if (after && !before && after.type !== 'file' && after.type !== 'dir') said.push(after.type);
  else if (after && !before && after.type === 'file' && parseInt(after.mode, 8) & 0o111) said.push('executable');
  if (after?.type === 'file') said.push(before?.type === 'file' && before.size !== after.size ? `${size(before.size)} → ${size(after.size)}` : size(after.size));
  return said;
}

/** `2 hunks`. */
export function hunksWord(content) {
  return count(content.hunks.length, 'hunk');
}
