// Package archtest keeps the architecture: who may import whom, how packages are
// named, how long a file may get, and what must never be written into the
// repository. It has tests only; docs/architecture.md explains the rules.
package archtest
