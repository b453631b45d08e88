// The history of a lane as a graph: one column for each branch, the newest snapshot first.

import { plain, s } from './dom.js';

/** For each snapshot: its column, the columns of branches that pass by, and those that began here. */
export function layout(snapshots) {
  const columns = [];
  return snapshots.map((snapshot) => {
    const waiting = columns.flatMap((id, at) => (id === snapshot.id ? [at] : []));
    let column = waiting[0];
    if (column === undefined) {
      column = columns.indexOf(null);
      if (column < 0) column = columns.push(null) - 1;
    }
    const passing = columns.flatMap((id, at) => (id !== null && at !== column && !waiting.includes(at) ? [at] : []));
    const before = waiting.length > 0;
    for (const at of waiting) columns[at] = null;
    columns[column] = snapshot.parent;
    while (columns.length && columns.at(-1) === null) columns.pop();
    return { column, passing, joining: waiting.filter((at) => at !== column), before, after: snapshot.parent !== null };
  });
}

/** The graph beside one row of a list. */
export function cell(snapshot, place, height) {
  const x = (column) => 9 + column * 14;
  const middle = height / 2;
  const widest = Math.max(place.column, ...place.passing, ...place.joining);
  const line = (from, y1, to, y2) => s('path', { class: 'edge', d: `M${x(from)} ${y1}L${x(to)} ${y2}` });
  return s('svg', { class: 'graph', width: x(widest) + 10, height, 'aria-hidden': 'true' },
    place.passing.map((at) => line(at, 0, at, height)),
    place.before && line(place.column, 0, place.column, middle),
    place.after && line(place.column, middle, place.column, height),
    place.joining.map((at) => line(at, 0, place.column, middle)),
    s('circle', { class: snapshot.here ? 'dot here' : 'dot', cx: x(place.column), cy: middle, r: snapshot.here ? 5 : 4 }));
}

/** A small graph that lies on its side, the newest at the right. */
export function small(snapshots, most) {
  const some = snapshots.slice(0, most);
  const places = layout(some);
  const step = 16;
  const height = 12 + 12 * Math.max(0, ...places.map((place) => place.column));
  const x = (index) => 8 + (some.length - 1 - index) * step;
  const y = (column) => height - 6 - column * 12;
  const at = new Map(some.map((snapshot, index) => [snapshot.id, index]));
  const edges = some.flatMap((snapshot, index) => {
    const parent = at.get(snapshot.parent);
    const from = `M${x(index)} ${y(places[index].column)}`;
    if (parent === undefined) return snapshot.parent ? [s('path', { class: 'edge faint', d: `${from}h-8` })] : [];
    return [s('path', { class: 'edge', d: `${from}L${x(parent)} ${y(places[parent].column)}` })];
  });
  const here = some.find((snapshot) => snapshot.here);
  const label = `${snapshots.length} snapshots${here ? `, at ${here.short} ${plain(here.text)}` : ''}`;
  return s('svg', { class: 'graph small', width: 16 + (some.length - 1) * step, height, role: 'img', 'aria-label': label },
    edges,
    some.map((snapshot, index) => s('circle', {
      class: snapshot.here ? 'dot here' : 'dot', cx: x(index), cy: y(places[index].column), r: snapshot.here ? 5 : 3.5,
    }, s('title', {}, `${snapshot.short} ${snapshot.how} ${plain(snapshot.text)}`))));
}
