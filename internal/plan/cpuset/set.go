package cpuset

import (
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// MaxCPUs is more than Linux can be built for (8192); a list with a greater
// number is a mistake and must not cost memory.
const MaxCPUs = 1 << 14

// Set is a set of logical CPUs. It is a value: no method changes it, and two
// equal sets have equal words. The zero value is the empty set.
type Set struct {
	words []uint64 // the last one is never 0
}

// Of returns the set of the given CPUs, which are below MaxCPUs.
func Of(cpus ...int) Set {
	var s Set
	for _, c := range cpus {
		s.add(c)
	}
	return s
}

// add changes s, so only functions that made s use it.
func (s *Set) add(cpu int) {
	w := cpu / 64
	if w >= len(s.words) {
		s.words = append(s.words, make([]uint64, w+1-len(s.words))...)
	}
	s.words[w] |= 1 << (cpu % 64)
}

// Parse reads the kernel's list format, as in "0-3,8". Blanks around the list
// are allowed, an empty list is the empty set.
func Parse(list string) (Set, error) {
	var s Set
	list = strings.TrimSpace(list)
	if list == "" {
		return s, nil
	}
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		from, err := parseCPU(first)
		if err != nil {
			return Set{}, fmt.Errorf("list of CPUs %q: %w", list, err)
		}
		to := from
		if isRange {
			if to, err = parseCPU(last); err != nil {
				return Set{}, fmt.Errorf("list of CPUs %q: %w", list, err)
			}
		}
		if to < from {
			return Set{}, fmt.Errorf("list of CPUs %q: the range %s ends before it begins", list, part)
		}
		for c := from; c <= to; c++ {
			s.add(c)
		}
	}
	return s, nil
}

func parseCPU(text string) (int, error) {
	// A sign is no digit: Atoi alone would take "+1".
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, fmt.Errorf("%q is no CPU number", text)
	}
	n, err := strconv.Atoi(text)
	if err != nil || n >= MaxCPUs {
		return 0, errors.New("a CPU number is above " + strconv.Itoa(MaxCPUs-1))
	}
	return n, nil
}

// String prints the list format, sorted, with ranges.
func (s Set) String() string {
	var out []byte
	from, last := -1, -1
	flush := func() {
		if from < 0 {
			return
		}
		if len(out) > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendInt(out, int64(from), 10)
		if last > from {
			out = append(out, '-')
			out = strconv.AppendInt(out, int64(last), 10)
		}
	}
	for c := range s.All() {
		if c != last+1 || from < 0 {
			flush()
			from = c
		}
		last = c
	}
	flush()
	return string(out)
}

// All yields the CPUs in order.
func (s Set) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range s.words {
			for ; w != 0; w &= w - 1 {
				if !yield(i*64 + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}

// List returns the CPUs in order.
func (s Set) List() []int { return slices.Collect(s.All()) }

// Len is the number of CPUs.
func (s Set) Len() int {
	n := 0
	for _, w := range s.words {
		n += bits.OnesCount64(w)
	}
	return n
}

// Empty tells whether there is no CPU in s.
func (s Set) Empty() bool { return len(s.words) == 0 }

// Has tells whether the CPU is in s.
func (s Set) Has(cpu int) bool {
	return cpu >= 0 && cpu/64 < len(s.words) && s.words[cpu/64]&(1<<(cpu%64)) != 0
}

// First is the lowest CPU, or -1 of the empty set.
func (s Set) First() int {
	for c := range s.All() {
		return c
	}
	return -1
}

// Union is what is in s or in t.
func (s Set) Union(t Set) Set {
	if len(s.words) < len(t.words) {
		s, t = t, s
	}
	words := slices.Clone(s.words)
	for i, w := range t.words {
		words[i] |= w
	}
	return Set{words}
}

// Intersect is what is in both.
func (s Set) Intersect(t Set) Set {
	words := slices.Clone(s.words[:min(len(s.words), len(t.words))])
	for i := range words {
		words[i] &= t.words[i]
	}
	return trimmed(words)
}

// Minus is what is in s and not in t.
func (s Set) Minus(t Set) Set {
	words := slices.Clone(s.words)
	for i := range min(len(s.words), len(t.words)) {
		words[i] &^= t.words[i]
	}
	return trimmed(words)
}

func trimmed(words []uint64) Set {
	for len(words) > 0 && words[len(words)-1] == 0 {
		words = words[:len(words)-1]
	}
	return Set{words}
}

// Equal tells whether both have the same CPUs.
func (s Set) Equal(t Set) bool { return slices.Equal(s.words, t.words) }

// Within tells whether all of s is in t.
func (s Set) Within(t Set) bool {
	for i, w := range s.words {
		if i >= len(t.words) || w&^t.words[i] != 0 {
			return false
		}
	}
	return true
}

// Overlaps tells whether s and t have a CPU in common.
func (s Set) Overlaps(t Set) bool {
	for i := range min(len(s.words), len(t.words)) {
		if s.words[i]&t.words[i] != 0 {
			return true
		}
	}
	return false
}

// MarshalText writes the list format, so that sets in JSON can be read by people.
func (s Set) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the list format.
func (s *Set) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	*s = parsed
	return err
}
