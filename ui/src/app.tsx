// The shell: navigation, state of the connection, keyboard, and the page of the address.
import { Component, type ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { onNotice } from './act'
import { get } from './api'
import { useData, useLink, type Link } from './live'
import { CellPage } from './pages/cell'
import { Events } from './pages/events'
import { JobPage, NodePage } from './pages/job'
import { ManyCells, ManyJob, ManyJobs, ManySchedules, ManyServices, ManyTasks, Servers } from './pages/many'
import { CellList, JobList, ScheduleList, ServiceList, TaskList } from './pages/lists'
import { Output } from './pages/output'
import { Overview } from './pages/overview'
import { SchedulePage } from './pages/schedule'
import { ServicePage } from './pages/service'
import { TaskPage } from './pages/task'
import { Modal } from './parts'
import { href, many, useRoute, type Route } from './route'
import { localZone, switchZone, useUTC } from './time'
import type { Status } from './types'

const nav = [
  ['overview', 'Overview', 'o'], ['services', 'Services', 's'], ['jobs', 'Jobs', 'j'], ['tasks', 'Tasks', 't'],
  ['schedules', 'Schedules', 'h'], ['cells', 'Cells', 'c'], ['events', 'Events', 'e'],
] as const

// section is the entry of the navigation that a page belongs to.
const section: Record<string, string> = { service: 'services', job: 'jobs', node: 'jobs', task: 'tasks', schedule: 'schedules', cell: 'cells' }

// ManyPage is a page over all of many servers.
function ManyPage({ of: r }: { of: Route }) {
  const [a = '', b = ''] = r.rest
  switch (r.page) {
    case 'overview': return <Servers />
    case 'services': return <ManyServices />
    case 'jobs': return <ManyJobs />
    case 'job': return <ManyJob domain={a} name={b} state={r.params.get('state') ?? ''} />
    case 'tasks': return <ManyTasks />
    case 'schedules': return <ManySchedules />
    case 'cells': return <ManyCells />
    default: return <p class="notice warn">Choose a server first: <a href={href('overview')}>Servers</a></p>
  }
}

function Page({ of: r }: { of: Route }) {
  const [a = '', b = '', c = ''] = r.rest
  if (many && !r.server) return <ManyPage of={r} />
  switch (r.page) {
    case 'overview': return <Overview />
    case 'services': return <ServiceList />
    case 'service': return <ServicePage domain={a} name={b} />
    case 'jobs': return <JobList />
    case 'job': return <JobPage of={{ domain: a, name: b }} state={r.params.get('state') ?? ''} below={r.params.get('below') ?? ''} />
    case 'node': return <NodePage of={{ domain: a, name: b }} node={c} />
    case 'tasks': return <TaskList />
    case 'task': return <TaskPage id={a} />
    case 'schedules': return <ScheduleList />
    case 'schedule': return <SchedulePage domain={a} name={b} />
    case 'cells': return <CellList />
    case 'cell': return <CellPage name={a} />
    case 'events': return <Events />
    case 'output': return <Output params={r.params} />
    default: return <p class="notice warn">There is no page <code>{r.page}</code>. <a href={href('overview')}>Overview</a></p>
  }
}

export function App() {
  const route = useRoute()
  const { link } = useLink()
  const [help, setHelp] = useState(false)
  const main = useRef<HTMLElement>(null)
  const key = [route.server, route.page, ...route.rest].join('/')
  const all = many && !route.server
  useKeys(() => setHelp(true))
  useEffect(() => {
    document.title = [...route.rest.slice().reverse(), all && route.page === 'overview' ? 'servers' : route.page, route.server, 'cantina'].filter(Boolean).join(' · ')
    scrollTo(0, 0)
    if (route.page !== 'overview') main.current?.focus({ preventScroll: true })
  }, [key])
  const here = section[route.page] ?? route.page
  return (
    <>
      <a class="skip" href={route.text || '#/'} onClick={(e) => { e.preventDefault(); main.current?.focus() }}>Skip to content</a>
      <header class="top">
        <a class="brand" href={href('overview', [], {}, '')}><img src="./icon.svg" alt="" width="20" height="20" />cantina</a>
        {route.server && <a class="at" href={href('overview', [], {}, '')} title="All servers">All servers</a>}
        {route.server && <b class="at">{route.server}</b>}
        <nav aria-label="Pages">
          {nav.filter(([page]) => !all || page !== 'events').map(([page, name]) => (
            <a key={page} href={href(page)} aria-current={here === page ? 'page' : undefined}>{all && page === 'overview' ? 'Servers' : name}</a>))}
        </nav>
        <div class="tools">
          {!all && <Connection link={link} />}
          <ZoneSwitch />
          <button type="button" class="quiet" aria-label="Keyboard shortcuts" title="Keyboard shortcuts (?)" onClick={() => setHelp(true)}>?</button>
        </div>
      </header>
      <main ref={main} tabIndex={-1}>
        <Banner />
        {link !== 'denied' && <Guarded key={key}><Page of={route} /></Guarded>}
      </main>
      {all ? <footer /> : <Footer key={route.server} />}
      <Notices />
      {help && <Help close={() => setHelp(false)} />}
    </>
  )
}

const words: Record<Link, [string, string]> = {
  connecting: ['busy', 'connecting'], live: ['ok', 'live'], offline: ['bad', 'offline'], denied: ['bad', 'no access'], standby: ['warn', 'standby'],
}

function Connection({ link }: { link: Link }) {
  const [tone, text] = words[link]
  return <span class={`link ${tone}`} role="status" aria-label={`Connection: ${text}`}><i aria-hidden="true" />{text}</span>
}

function ZoneSwitch() {
  const utc = useUTC()
  return (
    <button type="button" class="quiet" onClick={switchZone} aria-pressed={utc} title={`Times are in ${utc ? 'UTC' : localZone}; switch (u)`}>
      {utc ? 'UTC' : localZone.split('/').pop()!.replaceAll('_', ' ')}
    </button>
  )
}

function Banner() {
  const { link, problem } = useLink()
  if (link === 'denied') {
    return (
      <section class="notice bad gate" role="alert">
        <h1>This browser has no access</h1>
        <p>A link with a key opens the page. Run this on the machine of the server, and open the link that it prints:</p>
        <pre>cantina ui{many && ' --servers …'}</pre>
        <p class="dim">A key ends when the {many ? 'command' : 'server'} ends, or after a day without use. {problem?.message}</p>
      </section>
    )
  }
  if (link === 'standby') {
    return <p class="notice warn" role="alert"><b>This server does not lead.</b> {problem?.leader ? <>The leader is at <code>{problem.leader}</code>.</> : 'The leader is not known yet.'}</p>
  }
  if (link === 'offline') {
    return <p class="notice bad" role="alert"><b>No connection to the server.</b> The page shows the last known state and reconnects automatically.</p>
  }
  return null
}

function Footer() {
  const { data } = useData('status', ['note'], (s) => get<{ status: Status }>('/status', {}, s))
  const s = data?.status
  return <footer>{s && <>cluster <b>{s.cluster}</b> · leader <b>{s.leader}</b> · term <span class="num">{s.term}</span> · build {s.build}</>}</footer>
}

function Notices() {
  const [text, set] = useState('')
  useEffect(() => {
    let timer = 0
    const off = onNotice((t) => {
      set(t)
      clearTimeout(timer)
      timer = window.setTimeout(() => set(''), 6000)
    })
    return () => {
      off()
      clearTimeout(timer)
    }
  }, [])
  return <div class="toast" role="status" aria-live="polite">{text && <p>{text}</p>}</div>
}

// Guarded shows an error of a page in its place, and not an empty window.
class Guarded extends Component<{ children: ComponentChildren }, { error: string }> {
  override state = { error: '' }
  static override getDerivedStateFromError(e: unknown) {
    return { error: String(e) }
  }
  override render() {
    if (!this.state.error) return this.props.children
    return <p class="notice bad" role="alert"><b>This page failed.</b> {this.state.error}</p>
  }
}

// useKeys: g and a letter opens a page, / the filter, u switches the zone, j and k move through the rows.
function useKeys(help: () => void): void {
  useEffect(() => {
    let go = 0
    const on = (e: KeyboardEvent) => {
      const at = e.target as HTMLElement
      if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName) || document.querySelector('dialog[open]')) return
      if (Date.now() - go < 1500) {
        const page = nav.find(([, , k]) => k === e.key)
        go = 0
        if (page) location.hash = href(page[0])
        return
      }
      if (e.key === 'g') go = Date.now()
      else if (e.key === 'u') switchZone()
      else if (e.key === '?') help()
      else if (e.key === 'j' || e.key === 'k') step(e.key === 'j' ? 1 : -1)
      else if (e.key === '/') {
        e.preventDefault()
        document.querySelector<HTMLInputElement>('[data-filter]')?.focus()
      }
    }
    addEventListener('keydown', on)
    return () => removeEventListener('keydown', on)
  }, [])
}

function step(by: number): void {
  const rows = [...document.querySelectorAll<HTMLElement>('main .name[href]')]
  const at = rows.indexOf(document.activeElement as HTMLElement)
  rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + by))]?.focus()
}

function Help({ close }: { close: () => void }) {
  return (
    <Modal title="Keyboard" close={close}>
      <dl class="keys">
        {nav.map(([page, name, k]) => <div key={page}><dt><kbd>g</kbd> <kbd>{k}</kbd></dt><dd>{name}</dd></div>)}
        <div><dt><kbd>j</kbd> <kbd>k</kbd></dt><dd>next and previous row</dd></div>
        <div><dt><kbd>Enter</kbd></dt><dd>open it</dd></div>
        <div><dt><kbd>/</kbd></dt><dd>filter</dd></div>
        <div><dt><kbd>u</kbd></dt><dd>times in UTC or {localZone}</dd></div>
        <div><dt><kbd>?</kbd></dt><dd>this list</dd></div>
      </dl>
      <div class="buttons"><button type="button" class="solid" onClick={close}>Close</button></div>
    </Modal>
  )
}
