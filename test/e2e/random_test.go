package e2e

import (
	"crypto/rand"
	"testing"
)

// randomKey is a key for one cluster. It needs no more than to be new each time.
func randomKey(t *testing.T) string {
	t.Helper()
	return rand.Text() + rand.Text()
}
