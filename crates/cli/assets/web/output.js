// What a run printed, also while it runs.

import { ask, Gone } from './ask.js';
import { age, h, plain, problem, shown } from './dom.js';
import { Windowed } from './window.js';

export async function outputTab(page, lane, body, view) {
  const { runs } = await ask({ what: 'lane', lane });
  const recorded = runs.filter((run) => run.recorded);
  if (recorded.length === 0) {
    body.replaceChildren(h('p', { class: 'quiet empty' }, 'Nothing that ran here has a recording.'));
    return;
  }
  const choice = h('select', { 'aria-label': 'Run', onchange: () => follow(Number(choice.value)) }, recorded.map((run) => h('option', { value: run.id }, `${run.id} · ${plain(run.command).slice(0, 60)} · ${run.end ?? 'running'} · ${age(run.started, Date.now())} ago`)));
  const status = h('span', { class: 'quiet grow', role: 'status' });
  const tail = h('input', { type: 'checkbox' });
  tail.checked = true;
  let lines = [];
  let rest = null;
  let columns = 0;
  let following;
  const list = new Windowed({ rowHeight: 20, label: 'Output', className: 'output', row: (index) => h('div', { class: 'output-line' }, shown(lines[index] ?? rest ?? '')) });

  async function follow(run) {
    following?.abort();
    const mine = (following = new AbortController());
    [lines, rest, columns] = [[], null, 0];
    list.set(0);
    let from = { at: 0, skip: 0 };
    while (!mine.signal.aborted) {
      try {
        const answer = await ask({ what: 'output', lane, run, from, wait: lines.length > 0 || from.at > 0 }, mine.signal);
        if (mine.signal.aborted) return;
        page.connected(true);
        from = answer.next;
        const before = lines.length + (rest ? 1 : 0);
        // One by one: an answer may hold more lines than a call takes arguments.
        for (const line of answer.lines) lines.push(line);
        if (answer.last) lines.push(answer.last);
        ({ rest } = answer);
        for (const line of answer.lines) columns = Math.max(columns, plain(line).length);
        const now = lines.length + (rest ? 1 : 0);
        if (now !== before || rest) {
          list.set(now, { columns: columns + 4, keep: true });
          if (tail.checked) list.element.scrollTop = list.element.scrollHeight;
        }
        status.textContent = answer.over ? `${lines.length.toLocaleString('en')} lines · ${answer.end}` : `${lines.length.toLocaleString('en')} lines · running`;
        if (answer.over) return;
        if (answer.lines.length === 0 && from.at === 0) await new Promise((done) => setTimeout(done, 300));
      } catch (error) {
        if (error.name === 'AbortError') return;
        if (error instanceof Gone) page.connected(false);
        status.replaceChildren(problem(error));
        return;
      }
    }
  }

  view.leave = () => following?.abort();
  body.replaceChildren(h('div', { class: 'bar' }, choice, status, h('label', {}, tail, ' Follow')), list.element);
  view.keys.f = () => tail.click();
  follow(recorded[0].id);
}
