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
  const terminal = h('pre', { class: 'screen', tabindex: '0', 'aria-label': 'Screen of the terminal', hidden: true });
  const drawn = h('input', { type: 'checkbox', onchange: () => {
    terminal.hidden = !drawn.checked;
    list.element.hidden = drawn.checked;
    if (drawn.checked) watch();
    else list.draw();
  } });
  const drawnLabel = h('label', { hidden: true, title: 'For programs that draw on all of the screen (s)' }, drawn, ' Screen');
  let shownRun;
  let lines = [];
  let rest = null;
  let columns = 0;
  let following;
  const list = new Windowed({ rowHeight: 20, label: 'Output', className: 'output', row: (index) => h('div', { class: 'output-line' }, shown(lines[index] ?? rest ?? '')) });

  /** Draws the screen, again and again while it may change. */
  async function watch() {
    const [mine, run] = [following, shownRun];
    while (drawn.checked && !mine.signal.aborted) {
      try {
        const answer = await ask({ what: 'screen', lane, run }, mine.signal);
        const text = JSON.stringify(answer.rows);
        if (terminal.dataset.text !== text) {
          terminal.dataset.text = text;
          terminal.replaceChildren(...answer.rows.map((row) => h('div', {}, shown(row))));
        }
        if (answer.over) return;
      } catch (error) {
        if (error.name !== 'AbortError') terminal.replaceChildren(problem(error));
        return;
      }
      await new Promise((done) => setTimeout(done, 700));
    }
  }

  async function follow(run) {
    following?.abort();
    shownRun = run;
    drawnLabel.hidden = true;
    if (drawn.checked) drawn.click();
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
        drawnLabel.hidden = !answer.cast;
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
  body.replaceChildren(h('div', { class: 'bar' }, choice, status, drawnLabel, h('label', {}, tail, ' Follow')), list.element, terminal);
  view.keys.s = () => drawnLabel.hidden || drawn.click();
  view.keys.f = () => tail.click();
  follow(recorded[0].id);
}
