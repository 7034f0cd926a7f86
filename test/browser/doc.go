// Package browser tests the web UI in a real headless Chromium, on a real cantina dev.
//
// Screenshots of every page are written to test/screenshots, which git ignores. make test installs
// chromium and the packages of ui/package-lock.json (axe-core is one of them).
package browser
