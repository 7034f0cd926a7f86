// Building blocks of the pages.
import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import type { Problem } from './api'
import { natural, number, toneOf, type Tone } from './format'
import type { Counts } from './types'

const glyphs: Record<Tone, string> = { ok: '●', busy: '◐', warn: '▲', bad: '✖', idle: '○' }

// State is a state with a glyph, so that the colour is never the only signal.
export function State({ is, tone }: { is: string; tone?: Tone }) {
  const t = tone ?? toneOf(is)
  return <span class={`state ${t}`}><span aria-hidden="true">{glyphs[t]}</span> {is}</span>
}

export function Panel({ title, count, extra, children, id }: {
  title: string; count?: number | string | undefined; extra?: ComponentChildren; children: ComponentChildren; id?: string
}) {
  const label = 'panel-' + (id ?? title.toLowerCase().replace(/\W+/g, '-'))
  return (
    <section class="panel" aria-labelledby={label}>
      <header><h2 id={label}>{title}{count !== undefined && <span class="count">{typeof count === 'number' ? number(count) : count}</span>}</h2>{extra}</header>
      {children}
    </section>
  )
}

export interface Column<T> { name: string; cell: (x: T) => ComponentChildren; num?: boolean; wide?: boolean; hide?: boolean }

export function Table<T>({ label, rows, columns, id, empty = 'none', most = 500, rest = true, tone }: {
  label: string; rows: T[] | undefined; columns: Column<T>[]; id: (x: T) => string; empty?: string; most?: number; rest?: boolean; tone?: (x: T) => Tone
}) {
  if (!rows) return <p class="empty" aria-busy="true">loading…</p>
  if (rows.length === 0) return <p class="empty">{empty}</p>
  const shown = rows.slice(0, most)
  const cols = columns.filter((c) => !c.hide)
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table>
        <thead><tr>{cols.map((c) => <th key={c.name} scope="col" class={c.num ? 'num' : ''}>{c.name}</th>)}</tr></thead>
        <tbody>
          {shown.map((x) => (
            <tr key={id(x)} class={tone ? `row-${tone(x)}` : ''}>
              {cols.map((c) => <td key={c.name} class={(c.num ? 'num ' : '') + (c.wide ? 'wide' : '')}>{c.cell(x)}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
      {rest && rows.length > most && <p class="empty">and {number(rows.length - most)} more: use the filter</p>}
    </div>
  )
}

// kindsOfNode is the order of the segments, and their words.
export const kindsOfNode = ['done', 'running', 'ready', 'backoff', 'blocked', 'stranded', 'failed', 'disabled', 'avoided'] as const
export type NodeKind = (typeof kindsOfNode)[number]

// Bar is a stacked bar of states; a state without nodes has no segment. The widths are relative.
export function Bar({ counts, label, to, thin }: {
  counts: Partial<Record<NodeKind, number>>; label: string; to?: ((k: NodeKind) => string) | undefined; thin?: boolean
}) {
  const parts = kindsOfNode.filter((k) => (counts[k] ?? 0) > 0)
  const text = parts.map((k) => `${number(counts[k]!)} ${k}`).join(', ') || 'no nodes'
  if (to) {
    return (
      <div class={'bar' + (thin ? ' thin' : '')} role="group" aria-label={label}>
        {parts.map((k) => <a key={k} class={'seg ' + k} style={{ flexGrow: counts[k]! }} href={to(k)} title={`${number(counts[k]!)} ${k}`} aria-label={`${label}: ${number(counts[k]!)} ${k}`} />)}
      </div>
    )
  }
  return (
    <div class={'bar' + (thin ? ' thin' : '')} role="img" aria-label={`${label}: ${text}`} title={text}>
      {parts.map((k) => <span key={k} class={'seg ' + k} style={{ flexGrow: counts[k]! }} />)}
    </div>
  )
}

export function Legend({ counts, to, chosen }: { counts: Counts; to: (k: NodeKind | '') => string; chosen: string }) {
  return (
    <ul class="legend">
      <li><a href={to('')} aria-current={chosen === '' ? 'true' : undefined}>all <b>{number(counts.total)}</b></a></li>
      {kindsOfNode.filter((k) => counts[k] > 0).map((k) => (
        <li key={k}><a href={to(k)} aria-current={chosen === k ? 'true' : undefined}><i class={'dot ' + k} aria-hidden="true" />{k} <b>{number(counts[k])}</b></a></li>
      ))}
    </ul>
  )
}

// Meter is the used part of an amount.
// Meter is a share as a bar. A full one is a warning, unless it is good.
export function Meter({ label, used, total, text, good }: { label: string; used: number; total: number; text: string; good?: boolean }) {
  const share = total > 0 ? Math.min(1, used / total) : 0
  const tone = good ? 'ok' : share > 0.95 ? 'bad' : share > 0.8 ? 'warn' : 'ok'
  return (
    <div class="meter" title={text}>
      <span class="meter-name">{label}</span>
      <span class="track" role="meter" aria-label={label} aria-valuemin={0} aria-valuemax={100} aria-valuenow={Math.round(share * 100)} aria-valuetext={text}>
        <span class={'fill ' + tone} style={{ width: `${(share * 100).toFixed(1)}%` }} />
      </span>
      <span class="meter-text num">{text}</span>
    </div>
  )
}

export function Facts({ list }: { list: [string, ComponentChildren][] }) {
  return <dl class="facts">{list.map(([k, v]) => <div key={k}><dt>{k}</dt><dd>{v}</dd></div>)}</dl>
}

export function Failure({ of: p }: { of: Problem }) {
  return (
    <div class="notice bad" role="alert">
      <b>{p.message}</b>{p.hint && <span> {p.hint}</span>}{p.requestID && <span class="dim"> request {p.requestID}</span>}
    </div>
  )
}

// Filter is a text field that "/" reaches.
export function Filter({ value, set, label }: { value: string; set: (v: string) => void; label: string }) {
  return (
    <input class="filter" type="search" data-filter placeholder="filter   /" aria-label={label} value={value}
      onInput={(e) => set(e.currentTarget.value)} onKeyDown={(e) => e.key === 'Escape' && e.currentTarget.blur()} />
  )
}

export const matches = (text: string, filter: string) =>
  filter.toLowerCase().split(/\s+/).every((w) => text.toLowerCase().includes(w))

export function Labels({ of: labels }: { of: Record<string, string> }) {
  const keys = Object.keys(labels).sort(natural)
  return keys.length ? <>{keys.map((k) => <code key={k} class="chip">{k}={labels[k]}</code>)}</> : <span class="dim">none</span>
}

export function Json({ title, value, open }: { title: string; value: unknown; open?: boolean }) {
  return (
    <details class="json" open={open}>
      <summary>{title}</summary>
      <pre tabIndex={0} aria-label={title}>{JSON.stringify(tidy(value), null, 2)}</pre>
    </details>
  )
}

// tidy leaves out what is not set.
function tidy(x: unknown): unknown {
  if (Array.isArray(x)) return x.map(tidy)
  if (x && typeof x === 'object') {
    const kept = Object.entries(x).map(([k, v]) => [k, tidy(v)] as const)
      .filter(([, v]) => !(v === null || v === '' || v === false || v === '0' || (Array.isArray(v) && v.length === 0) || (typeof v === 'object' && Object.keys(v).length === 0)))
    return Object.fromEntries(kept)
  }
  return x
}

// Modal is a dialog that the browser keeps the focus in.
export function Modal({ title, close, children }: { title: string; close: () => void; children: ComponentChildren }) {
  const ref = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    ref.current?.showModal()
  }, [])
  const outside = (e: MouseEvent) => {
    if (e.target === ref.current) close()
  }
  return (
    <dialog ref={ref} aria-labelledby="dialog-title" onClose={close} onCancel={close} onClick={outside}>
      <div class="dialog"><h2 id="dialog-title">{title}</h2>{children}</div>
    </dialog>
  )
}
