package timelimit

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
)

// slurmsAnswers has what Slurm 26.05 makes of a partition's MaxTime, "" where it refuses it.
func slurmsAnswers() map[string]string {
	return map[string]string{
		"0": "00:00:00", "1": "00:01:00", "005": "00:05:00", "90": "01:30:00", "5:30": "00:06:00", "0:01": "00:01:00", "10:0": "00:10:00",
		"99:99": "01:41:00", "1:00:00": "01:00:00", "1:2:3": "01:03:00", "0:0:30": "00:01:00", "25:00:00": "1-01:00:00", "0:61:00": "01:01:00",
		"0:0:61": "00:02:00", "1-0": "1-00:00:00", "1-": "1-00:00:00", "1-2": "1-02:00:00", "1-2:3": "1-02:03:00", "1-2:3:4": "1-02:04:00",
		"1-24": "2-00:00:00", "1-2:60": "1-03:00:00", "1-99999": "4167-15:00:00", "365-0": "365-00:00:00", "35791393": "24855-03:13:00",
		"UNLIMITED": "UNLIMITED", "unlimited": "UNLIMITED", "INFINITE": "UNLIMITED", "Infinite": "UNLIMITED", "-1": "UNLIMITED",
		"": "", "abc": "", "1.5": "", "-5": "", "-1-": "", "1:2:3:4": "", "1-2-3": "", "1:": "", ":5": "", "1-:5": "", "1-2:": "", "1-2:3:4:5": "",
		" 5": "", "5 ": "", "5m": "", "n/a": "", "INFINITEX": "", "INVALID": "", "+5": "", "35791394": "", "35791395": "",
	}
}

func TestParse(t *testing.T) {
	for in, want := range slurmsAnswers() {
		n, err := Parse(in)
		var e *Error
		switch {
		case want == "" && !errors.As(err, &e):
			t.Errorf("Parse(%q) = %v, %v, want an *Error", in, n, err)
		case want != "" && (err != nil || Format(n) != want):
			t.Errorf("Parse(%q) = %v, %v, want %s", in, n, err, want)
		}
	}
}

// Slurm's numbers overflow here, and it takes what comes of it.
func TestTooLong(t *testing.T) {
	for _, in := range []string{"99999999999", "4294967294", "4294967296", "71582789", "50000-0", "99999999999999999999999-0", "1-99999999999999999999:99999999999999999999:99999999999999999999"} {
		if n, err := Parse(in); err == nil || !strings.Contains(err.Error(), "24855-03:13:00") {
			t.Errorf("Parse(%q) = %v, %v, want an error that tells the longest limit", in, n, err)
		}
	}
}

func TestNotSet(t *testing.T) {
	n, err := Parse("NOT_SET")
	if err != nil || n.Set || Format(n) != "NOT_SET" {
		t.Errorf("got %v, %v", n, err)
	}
}

func TestFromDuration(t *testing.T) {
	for d, want := range map[time.Duration]uint64{0: 0, -time.Hour: 0, time.Nanosecond: 1, time.Minute: 1, 90 * time.Second: 2, 25 * time.Hour: 1500} {
		if got := FromDuration(d); got != slurm.NumberOf(want) {
			t.Errorf("%v: got %v, want %d", d, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for s := range slurmsAnswers() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := Parse(s)
		if err != nil {
			return
		}
		if minutes, ok := n.Get(); ok && minutes > Max {
			t.Errorf("%q is %d minutes, more than Max", s, minutes)
		}
		if again, err := Parse(Format(n)); err != nil || again != n {
			t.Errorf("%q was read, printed as %q, and read as %v, %v", s, Format(n), again, err)
		}
	})
}

func ExampleParse() {
	n, err := Parse("1-12:30")
	fmt.Println(n.Value, Format(n), err)
	_, err = Parse("2h")
	fmt.Println(err)
	// Output:
	// 2190 1-12:30:00 <nil>
	// time limit "2h": write minutes, "minutes:seconds", "hours:minutes:seconds", "days-hours", "days-hours:minutes", "days-hours:minutes:seconds" or "UNLIMITED"
}

func ExampleFormat() {
	fmt.Println(Format(slurm.NumberOf(90)), Format(slurm.Infinite()), Format(slurm.Number{}))
	// Output: 01:30:00 UNLIMITED NOT_SET
}

func ExampleFromDuration() {
	fmt.Println(FromDuration(90 * time.Second))
	// Output: 2
}
