package dialect

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
)

// Number is slurm.Number as slurmrestd writes it: {"set":…,"infinite":…,"number":…}.
type Number slurm.Number

// Values that Slurm uses inside for "not set" and "infinite", and that leak out at times.
const (
	noVal32, infinite32 = 0xfffffffe, 0xffffffff
	noVal64, infinite64 = 0xfffffffffffffffe, 0xffffffffffffffff
)

type numberObject struct {
	Set      bool        `json:"set"`
	Infinite bool        `json:"infinite"`
	Number   json.Number `json:"number"`
}

// UnmarshalJSON accepts the object, a bare number, a number or the word
// "Infinity" as text, and null. What is no number at all becomes "not set".
func (n *Number) UnmarshalJSON(b []byte) error {
	*n = Number{}
	switch b = bytes.TrimSpace(b); {
	case len(b) == 0 || bytes.Equal(b, []byte("null")):
		return nil
	case b[0] == '{':
		var o numberObject
		if err := json.Unmarshal(b, &o); err != nil {
			return err
		}
		switch {
		case o.Infinite:
			*n = Number(slurm.Infinite())
		case o.Set:
			*n = parseNumber(o.Number.String())
		}
		return nil
	case b[0] == '"':
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		*n = parseNumber(s)
		return nil
	default:
		*n = parseNumber(string(b))
		return nil
	}
}

func parseNumber(s string) Number {
	switch strings.ToUpper(strings.TrimSpace(s)) {
	case "INFINITE", "INFINITY", "UNLIMITED":
		return Number(slurm.Infinite())
	}
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		// A fraction, as in billing: Slurm's own tools print it rounded down too.
		f, ferr := strconv.ParseFloat(s, 64)
		if ferr != nil || !(f >= 0 && f < 1<<63) {
			return Number{}
		}
		v = uint64(f)
	}
	switch v {
	case noVal32, noVal64:
		return Number{}
	case infinite32, infinite64:
		return Number(slurm.Infinite())
	}
	return Number(slurm.NumberOf(v))
}

// MarshalJSON writes the full object.
func (n Number) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Set      bool   `json:"set"`
		Infinite bool   `json:"infinite"`
		Number   uint64 `json:"number"`
	}{n.Set, n.Infinite, n.Value})
}

// Time reads the number as seconds since 1970; 0, unset and infinite are the zero time.
func (n Number) Time() time.Time {
	v, ok := slurm.Number(n).Get()
	if !ok || v == 0 || v > 1<<40 {
		return time.Time{}
	}
	return time.Unix(int64(v), 0).UTC()
}

// Float is a number with a fraction in the form of Number. One that isn't set, or is
// infinite, is nil in the neutral model.
type Float struct{ Value *float64 }

// UnmarshalJSON accepts what Number accepts.
func (f *Float) UnmarshalJSON(b []byte) error {
	f.Value = nil
	b = bytes.TrimSpace(b)
	if len(b) > 0 && b[0] == '{' {
		var o numberObject
		if err := json.Unmarshal(b, &o); err != nil {
			return err
		}
		if !o.Set || o.Infinite {
			return nil
		}
		b = []byte(o.Number)
	}
	v, err := strconv.ParseFloat(strings.Trim(string(b), `"`), 64)
	if err == nil && !math.IsInf(v, 0) && !math.IsNaN(v) {
		f.Value = &v
	}
	return nil
}

// MarshalJSON writes the full object.
func (f Float) MarshalJSON() ([]byte, error) {
	if f.Value == nil {
		return []byte(`{"set":false,"infinite":false,"number":0}`), nil
	}
	return json.Marshal(struct {
		Set      bool    `json:"set"`
		Infinite bool    `json:"infinite"`
		Number   float64 `json:"number"`
	}{true, false, *f.Value})
}
