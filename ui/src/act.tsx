// Writes: each has a confirmation that names its target and its consequence.
import { useState } from 'preact/hooks'
import { Problem, send } from './api'
import { Failure, Modal } from './parts'
import { currentServer } from './route'

export interface Action {
  name: string // of the button: Kill…
  title: string // a question: Kill batch tasks of job measure?
  text: string // its consequence
  target: string // shown in full
  method: 'POST' | 'PUT' | 'DELETE'
  path: string
  body: (input: string) => unknown
  revision?: string // the one that the user sees: the call is refused if it has changed
  danger?: boolean
  input?: { label: string; value: string; type: 'number' | 'text' }
  done: string // announced afterwards
}

const notices = new Set<(text: string) => void>()
export const announce = (text: string) => notices.forEach((f) => f(text))
export const onNotice = (f: (text: string) => void) => {
  notices.add(f)
  return () => void notices.delete(f)
}

export function Act({ of: a, after }: { of: Action; after?: () => void }) {
  const [open, setOpen] = useState(false)
  return (
    <>
      <button type="button" class={a.danger ? 'danger' : ''} onClick={() => setOpen(true)}>{a.name}</button>
      {open && <Confirm of={a} close={() => setOpen(false)} after={after} />}
    </>
  )
}

function Confirm({ of: a, close, after }: { of: Action; close: () => void; after: (() => void) | undefined }) {
  const [input, setInput] = useState(a.input?.value ?? '')
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<Problem | null>(null)
  const wrong = a.input ? (a.input.type === 'number' ? !/^\d{1,6}$/.test(input) : input.trim() === '') : false
  const go = async () => {
    setBusy(true)
    try {
      await send(a.method, a.path, a.body(input), a.revision)
      announce(a.done)
      close()
      after?.()
    } catch (e) {
      setError(e instanceof Problem ? e : new Problem('internal', String(e)))
      setBusy(false)
      after?.() // the resource may have changed: its next revision is the one that the user then confirms
    }
  }
  return (
    <Modal title={a.title} close={close}>
      <p>{a.text}</p>
      <p class="target"><code>{a.target}</code>{currentServer() && <> on server <code>{currentServer()}</code></>}</p>
      {a.input && (
        <label class="field">{a.input.label}
          {a.input.type === 'number'
            ? <input type="number" min={0} value={input} onInput={(e) => setInput(e.currentTarget.value)} />
            : <input type="text" value={input} onInput={(e) => setInput(e.currentTarget.value)} />}
        </label>
      )}
      {error && <Failure of={error} />}
      <div class="buttons">
        <button type="button" onClick={close} autofocus>Cancel</button>
        <button type="button" class={a.danger ? 'danger solid' : 'solid'} disabled={busy || wrong} onClick={go}>{a.name.replace('…', '')}</button>
      </div>
    </Modal>
  )
}
