import { Act } from '../act'
import { get } from '../api'
import { scheduleTone, seconds, span } from '../format'
import { useData } from '../live'
import { Failure, Facts, Panel, State, Table } from '../parts'
import { href } from '../route'
import { Ago, When } from '../time'
import type { Schedule } from '../types'
import { Head } from './about'

export function SchedulePage({ domain, name }: { domain: string; name: string }) {
  const path = `/schedules/${encodeURIComponent(domain)}/${encodeURIComponent(name)}`
  const { data, error, refresh } = useData(path, ['schedule', 'task', 'job'], (s) => get<{ schedule: Schedule & { jitter: string | null; misfire_deadline: string | null } }>(path, { upcoming: 10 }, s),
    (e) => e.subject === `${domain}/${name}` || e.subject.startsWith(`${domain}.${name}.`))
  if (error) return <Failure of={error} />
  const x = data?.schedule
  const target = `schedule ${domain}/${name}`
  const paused = x?.state === 'paused'
  const run = (id: string) => <a class="name" href={x?.starts === 'job' ? href('job', [domain, name]) : href('task', [id])}>{id}</a>
  return (
    <>
      <Head kind="schedule" name={`${domain}/${name}`} state={x?.state ?? ''} tone={x && scheduleTone(x.state)} back={['schedules', href('schedules')]}>
        {x && <>
          <Act after={refresh} of={{
            name: 'Run now…', title: `Run ${target} now?`, target, method: 'POST', path: `${path}/run`, text: `It starts a ${x.starts} now, beside the calendar. The rule of overlap (${x.overlap}) holds.`,
            body: () => ({}), done: `${target} runs`,
          }} />
          <Act after={refresh} of={{
            name: paused ? 'Resume…' : 'Pause…', title: `${paused ? 'Resume' : 'Pause'} ${target}?`, target, method: 'PUT', path: `${path}/paused`,
            text: paused ? `It fires again. Missed times follow the rule of missed times (${x.misfire}).` : 'It does not fire until it is resumed. Running work continues.',
            body: () => ({ paused: !paused }), done: `${target} is ${paused ? 'resumed' : 'paused'}`,
          }} />
        </>}
      </Head>
      {x && <p class="words">{x.words}</p>}
      {x && <Facts list={[
        ['calendar', <code>{x.cron}</code>], ['zone', x.timezone || 'UTC'], ['next', <When at={x.next} short />],
        ['starts', x.starts === 'signal' && x.signal ? `signal ${x.signal.signal} to ${x.signal.service}` : x.starts],
        ['overlap', x.overlap], ['missed times', x.misfire],
        ...(x.gap || x.fold ? [['clock jumps', jumps(x)] as [string, string]] : []),
        ...(x.jitter ? [['jitter', span(seconds(x.jitter))] as [string, string]] : []),
        ['fired', x.fired], ['skipped', x.skipped],
      ]} />}
      {x && [x.problem, x.note].filter(Boolean).map((t) => <p key={t} class="notice warn">{t}</p>)}
      {x && x.live.length > 0 && <Panel title="May still run" count={x.live.length}><ul class="plain">{x.live.map((r) => <li key={r}>{run(r)}</li>)}</ul></Panel>}
      {x && x.pending.length > 0 && <Panel title="Due and undecided" count={x.pending.length}><ul class="plain">{x.pending.map((p) => <li key={p.at}><When at={p.at} /> by {p.by}</li>)}</ul></Panel>}
      <div class="columns">
        <Panel title="Next firings">
          <Table label="Next firings" rows={x?.upcoming} id={(t) => t.at + t.mark} empty="it does not fire again" columns={[
            { name: 'time', cell: (t) => <When at={t.at} /> },
            { name: 'in the zone', cell: (t) => <span class="num">{t.local}</span> },
            { name: 'in', cell: (t) => <Ago at={t.at} /> },
            { name: 'clock change', wide: true, cell: (t) => <span class="note">{[t.mark, t.skip && `left out: ${t.skip}`].filter(Boolean).join(' · ')}</span> },
          ]} />
        </Panel>
        <Panel title="History" count={x?.history.length}>
          <Table label="History" rows={x && [...x.history].reverse()} id={(h) => h.at + h.decided + h.what} empty="it has not fired yet" columns={[
            { name: 'time', cell: (h) => <><When at={h.at} short />{h.count > 1 && <span class="dim"> and {h.count - 1} more</span>}</> },
            { name: 'decision', cell: (h) => <State is={h.what} /> },
            { name: 'outcome', cell: (h) => h.outcome ? <State is={h.outcome} /> : <span class="dim">–</span> },
            { name: 'run or reason', wide: true, cell: (h) => h.what === 'started' && h.run ? run(h.run) : <span class="note">{h.text}</span> },
          ]} />
        </Panel>
      </div>
    </>
  )
}

// jumps is what the schedule does where clocks move; a calendar without such times has no rule.
function jumps(x: Schedule) {
  return [x.gap && `missing hour: ${x.gap}`, x.fold && `repeated hour: ${x.fold}`].filter(Boolean).join(', ')
}
