package dialect_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/rest/dialect"
)

// S101, S109: whatever form a number comes in, it is unset, infinite or itself:
// never huge, and never 0, by accident.
func TestNumberForms(t *testing.T) {
	cases := map[string]slurm.Number{
		`{"n":5}`:   slurm.NumberOf(5),
		`{"n":"5"}`: slurm.NumberOf(5),
		`{"n":{"set":true,"infinite":false,"number":5}}`:   slurm.NumberOf(5),
		`{"n":{"set":false,"infinite":false,"number":0}}`:  {},
		`{"n":{"set":false,"infinite":false,"number":7}}`:  {},
		`{"n":{"set":true,"infinite":true,"number":0}}`:    slurm.Infinite(),
		`{"n":{"set":false,"infinite":true,"number":0}}`:   slurm.Infinite(),
		`{"n":{"set":true,"infinite":false,"number":0}}`:   slurm.NumberOf(0),
		`{"n":{"set":true,"infinite":false,"number":4.9}}`: slurm.NumberOf(4),
		`{"n":{"set":true,"infinite":false,"number":"5"}}`: slurm.NumberOf(5),
		`{"n":{"set":true}}`:                               {},
		`{"n":{}}`:                                         {},
		`{"n":null}`:                                       {},
		`{}`:                                               {},
		`{"n":"Infinity"}`:                                 slurm.Infinite(),
		`{"n":"UNLIMITED"}`:                                slurm.Infinite(),
		`{"n":"-Infinity"}`:                                {},
		`{"n":"NaN"}`:                                      {},
		`{"n":"NONE"}`:                                     {},
		`{"n":"N/A"}`:                                      {},
		`{"n":""}`:                                         {},
		`{"n":-5}`:                                         {},
		`{"n":1e308}`:                                      {},
		`{"n":1e400}`:                                      {},
		`{"n":true}`:                                       {},
		`{"n":4294967294}`:                                 {},
		`{"n":4294967295}`:                                 slurm.Infinite(),
		`{"n":18446744073709551614}`:                       {},
		`{"n":18446744073709551615}`:                       slurm.Infinite(),
		`{"n":18446744073709551616}`:                       {},
		`{"n":{"set":true,"infinite":false,"number":4294967294}}`:           {},
		`{"n":{"set":true,"infinite":false,"number":18446744073709551614}}`: {},
		`{"n":{"set":true,"infinite":false,"number":-1}}`:                   {},
	}
	for text, want := range cases {
		got := struct{ N dialect.Number }{N: dialect.Number(slurm.NumberOf(99))}
		if text == `{}` {
			got.N = dialect.Number{} // a missing member changes nothing
		}
		if err := json.Unmarshal([]byte(text), &got); err != nil || slurm.Number(got.N) != want {
			t.Errorf("%s is %v, %v, want %v", text, slurm.Number(got.N), err, want)
		}
	}
	for _, text := range []string{`{"n":NaN}`, `{"n":Infinity}`, `{"n":-Infinity}`, `{"n":[5]}`, `{"n":05}`} {
		var got struct{ N dialect.Number }
		if err := json.Unmarshal([]byte(text), &got); err == nil && got.N.Set {
			t.Errorf("%s is %v", text, slurm.Number(got.N))
		}
	}
}

// S101: what is written is read again as the same.
func TestNumberRoundTrip(t *testing.T) {
	for _, n := range []slurm.Number{{}, slurm.NumberOf(0), slurm.NumberOf(5), slurm.NumberOf(math.MaxUint32 - 2), slurm.Infinite()} {
		text, err := json.Marshal(dialect.Number(n))
		if err != nil {
			t.Fatal(err)
		}
		var got dialect.Number
		if err := json.Unmarshal(text, &got); err != nil || slurm.Number(got) != n {
			t.Errorf("%v was written as %s and read as %v, %v", n, text, slurm.Number(got), err)
		}
	}
}

// S109: a fraction that is no number isn't one, and is never written as one.
func TestFloatForms(t *testing.T) {
	for _, text := range []string{
		`null`, `"NaN"`, `"Infinity"`, `"-Infinity"`, `1e400`, `{"set":true,"infinite":true,"number":0}`, `{"set":false,"number":7}`,
		`{"set":true,"number":"NaN"}`, `{}`, `""`,
	} {
		var got dialect.Float
		if err := json.Unmarshal([]byte(text), &got); err == nil && got.Value != nil {
			t.Errorf("%s is %v", text, *got.Value)
		}
		if _, err := json.Marshal(got); err != nil {
			t.Errorf("%s, written again: %v", text, err)
		}
	}
	var big dialect.Float
	if err := json.Unmarshal([]byte(`1e308`), &big); err != nil || big.Value == nil || *big.Value != 1e308 {
		t.Errorf("1e308 is %v, %v", big.Value, err)
	}
	for _, v := range []float64{math.NaN(), math.Inf(1)} {
		if text, err := json.Marshal(dialect.Float{Value: &v}); err == nil && !json.Valid(text) {
			t.Errorf("%v was written as %s", v, text)
		}
	}
}

func FuzzNumber(f *testing.F) {
	for _, s := range []string{`5`, `"5"`, `{"set":true,"infinite":false,"number":5}`, `null`, `NaN`, `1e308`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var n dialect.Number
		if json.Unmarshal(text, &n) != nil {
			return
		}
		written, err := json.Marshal(n)
		if err != nil {
			t.Fatalf("%q was read as %v and can't be written: %v", text, n, err)
		}
		var again dialect.Number
		if err := json.Unmarshal(written, &again); err != nil || again != n {
			t.Errorf("%q was read as %v, and that as %v, %v", text, n, again, err)
		}
	})
}
