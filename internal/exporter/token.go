package exporter

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// expiry is when a token ends; the zero time where it says nothing of that. Slurm checks the signature, not we.
func expiry(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	text, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil {
		return time.Time{}
	}
	var claims struct {
		Expiry float64 `json:"exp"`
	}
	if json.Unmarshal(text, &claims) != nil || claims.Expiry <= 0 || claims.Expiry > 1e12 {
		return time.Time{}
	}
	return time.Unix(int64(claims.Expiry), 0)
}

// readToken notes when the token ends that calls carry.
func (e *Exporter) readToken(ctx context.Context) {
	if e.Token == nil {
		return
	}
	token, err := e.Token(ctx)
	if at := expiry(token); err == nil && !at.IsZero() {
		e.expires.WithLabelValues().Set(when(at))
	} else {
		e.expires.Reset()
	}
}
