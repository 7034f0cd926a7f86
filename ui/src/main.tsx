import { render } from 'preact'
import { takeKey } from './api'
import { App } from './app'
import './style.css'

takeKey()
// A link with a new key that is opened in this tab changes only the address.
addEventListener('hashchange', () => takeKey() && location.reload())
render(<App />, document.getElementById('app')!)
