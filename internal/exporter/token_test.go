package exporter

import (
	"encoding/base64"
	"testing"
	"time"
)

func TestExpiry(t *testing.T) {
	claims := func(text string) string { return "h." + base64.RawURLEncoding.EncodeToString([]byte(text)) + ".s" }
	for token, want := range map[string]time.Time{
		claims(`{"exp":2000000000,"sun":"slurm"}`): time.Unix(2e9, 0), claims(`{"exp":2000000000.9}`): time.Unix(2e9, 0), claims(`{}`): {}, claims(`{"exp":-1}`): {},
		claims(`{"exp":1e300}`): {}, claims(`x`): {}, "a.%.b": {}, "": {}, "a.b": {},
	} {
		if got := expiry(token); !got.Equal(want) {
			t.Errorf("%s expires at %s, want %s", token, got, want)
		}
	}
}
