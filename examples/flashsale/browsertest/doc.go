// Package browsertest tries the live page of the flash sale in a real browser.
// It is a module of its own, because only it needs a browser driver.
// ./scripts/test browser runs it, and installs Chromium where that is allowed.
package browsertest
