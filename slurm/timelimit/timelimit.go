// Package timelimit reads and prints Slurm's notation of durations, such as a
// job's or a partition's time limit. All are minutes to Slurm:
//
//	90          minutes
//	90:30       minutes:seconds
//	1:30:00     hours:minutes:seconds
//	1-12        days-hours, and so on: 1-12:30, 1-12:30:00
//	UNLIMITED   no limit; INFINITE and -1 are the same
//	NOT_SET     none was given
//
// A part may be larger than the next unit: 25:00:00 is a day and an hour. A part
// of a minute counts as a whole one.
package timelimit

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
)

// Max is the longest limit in minutes: more seconds than its don't fit Slurm's numbers.
const Max = (math.MaxInt32 - 59) / 60

// Error tells what is wrong with a limit.
type Error struct{ Input, Problem string }

func (e *Error) Error() string {
	input := e.Input
	if len(input) > 100 {
		input = input[:100] + "..."
	}
	return fmt.Sprintf("time limit %q: %s", input, e.Problem)
}

const forms = `write minutes, "minutes:seconds", "hours:minutes:seconds", "days-hours", "days-hours:minutes", "days-hours:minutes:seconds" or "UNLIMITED"`

// Parse returns the limit in minutes, as slurm.Job has it. "NOT_SET", which Slurm
// prints but doesn't take, is a Number that isn't set.
func Parse(s string) (slurm.Number, error) {
	switch strings.ToUpper(s) {
	case "UNLIMITED", "INFINITE", "-1":
		return slurm.Infinite(), nil
	case "NOT_SET":
		return slurm.Number{}, nil
	}
	seconds, problem := parse(s)
	if problem != "" {
		return slurm.Number{}, &Error{Input: s, Problem: problem}
	}
	return slurm.NumberOf((seconds + 59) / 60), nil
}

func parse(s string) (seconds uint64, problem string) {
	units := [][]uint64{{60}, {60, 1}, {3600, 60, 1}}
	days, rest, hasDays := strings.Cut(s, "-")
	if hasDays {
		units = [][]uint64{{3600}, {3600, 60}, {3600, 60, 1}}
		n, ok := number(days)
		if !ok {
			return 0, forms
		}
		seconds = n * 86400
		if rest == "" { // Slurm reads "2-" as two days
			return checked(seconds)
		}
	} else {
		rest = s
	}
	parts := strings.Split(rest, ":")
	if len(parts) > len(units) {
		return 0, forms
	}
	for i, part := range parts {
		n, ok := number(part)
		if !ok {
			return 0, forms
		}
		seconds += n * units[len(parts)-1][i]
	}
	return checked(seconds)
}

// number reads digits. All numbers beyond Slurm's are the same here, so that no sum overflows.
func number(s string) (uint64, bool) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		n = math.MaxUint64
	}
	return min(n, math.MaxInt32), s != ""
}

func checked(seconds uint64) (uint64, string) {
	if seconds > Max*60 {
		return 0, fmt.Sprintf("longer than Slurm's numbers hold, %s", Format(slurm.NumberOf(Max)))
	}
	return seconds, ""
}

// Format prints a limit in minutes as Slurm does: hours:minutes:seconds, with
// days in front where there are any, "UNLIMITED" or "NOT_SET".
func Format(minutes slurm.Number) string {
	n, ok := minutes.Get()
	switch {
	case minutes.Infinite:
		return "UNLIMITED"
	case !ok:
		return "NOT_SET"
	case n >= 24*60:
		return fmt.Sprintf("%d-%02d:%02d:00", n/(24*60), n/60%24, n%60)
	}
	return fmt.Sprintf("%02d:%02d:00", n/60, n%60)
}

// FromDuration returns d in minutes, a part of one counting as a whole, and no less than 0.
func FromDuration(d time.Duration) slurm.Number {
	minutes := d / time.Minute
	if d%time.Minute > 0 {
		minutes++
	}
	return slurm.NumberOf(uint64(max(minutes, 0)))
}
