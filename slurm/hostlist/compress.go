package hostlist

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Compress returns a short expression for a set of names: each once, sorted by
// prefix and number as Slurm sorts. Expand of the result gives that sorted set.
// Empty names are left out.
func Compress(names []string) string {
	sets := map[string][]host{}
	// Neighbours mostly share a prefix, so its list is looked up once for all of them.
	var prefix string
	var set []host
	for _, name := range names {
		if name == "" {
			continue
		}
		p, h := split(name)
		if set == nil || p != prefix {
			if set != nil {
				sets[prefix] = set
			}
			prefix, set = p, sets[p]
		}
		set = append(set, h)
	}
	if set != nil {
		sets[prefix] = set
	}
	var w writer
	for _, prefix := range slices.SortedFunc(maps.Keys(sets), compareNatural) {
		set := sets[prefix]
		slices.Sort(set)
		for _, h := range slices.Compact(set) {
			w.add(prefix, h)
		}
	}
	return w.finish()
}

// Join returns an expression for names in their order, repeats included. Expand
// of the result gives the same names. Empty names are left out.
func Join(names []string) string {
	var w writer
	for _, name := range names {
		if name != "" {
			w.add(split(name))
		}
	}
	return w.finish()
}

// Sort sorts names as Slurm does: by the text before the number at the end, in
// which numbers count as numbers too, then by the length of the number with its
// leading zeros, then by the number.
func Sort(names []string) {
	slices.SortFunc(names, func(a, b string) int {
		pa, ha := split(a)
		pb, hb := split(b)
		if pa != pb {
			return compareNatural(pa, pb)
		}
		return cmp.Compare(ha, hb)
	})
}

// host is the number at the end of a name: how many digits it has, and its
// value. It orders as Slurm orders. The zero host is no number.
type host uint64

const (
	valueBits = 57
	// maxTail is how many digits of a name's end are taken for its number: what
	// fits a host. Digits before these are text.
	maxTail = 17
)

func (h host) digits() int   { return int(h >> valueBits) }
func (h host) value() uint64 { return uint64(h) & (1<<valueBits - 1) }

func split(name string) (prefix string, h host) {
	i := len(name)
	for i > 0 && len(name)-i < maxTail && name[i-1] >= '0' && name[i-1] <= '9' {
		i--
	}
	var n uint64
	for _, c := range []byte(name[i:]) {
		n = n*10 + uint64(c-'0')
	}
	return name[:i], host(len(name)-i)<<valueBits | host(n)
}

// writer prints names one after the other, joining each to the ones before it where that can be.
type writer struct {
	text   []byte
	prefix string
	// first and last are the ends of the open range, which is not in text yet.
	first, last host
	// bracket tells that the open group has its bracket.
	bracket bool
	begun   bool
}

func (w *writer) add(prefix string, h host) {
	switch {
	case !w.begun:
		w.open(prefix, h)
	case h == 0 || w.first == 0 || prefix != w.prefix:
		w.close()
		w.text = append(w.text, ',')
		w.open(prefix, h)
	case h.value() == w.last.value()+1 && h.digits() == max(w.first.digits(), digits(h.value())):
		w.last = h
	default:
		w.flush(true)
		w.text = append(w.text, ',')
		w.first, w.last = h, h
	}
}

func (w *writer) open(prefix string, h host) {
	w.text = append(w.text, prefix...)
	w.prefix, w.first, w.last, w.bracket, w.begun = prefix, h, h, false, true
}

// flush prints the open range, within a bracket if more follow or if it is one.
func (w *writer) flush(more bool) {
	if w.first == 0 {
		return
	}
	if (more || w.first != w.last) && !w.bracket {
		w.text = append(w.text, '[')
		w.bracket = true
	}
	w.text = appendNumber(w.text, w.first.value(), w.first.digits())
	if w.first != w.last {
		w.text = append(w.text, '-')
		w.text = appendNumber(w.text, w.last.value(), w.last.digits())
	}
}

func (w *writer) close() {
	w.flush(false)
	if w.bracket {
		w.text = append(w.text, ']')
	}
}

func (w *writer) finish() string {
	w.close()
	return string(w.text)
}

// compareNatural compares texts in which runs of digits count as numbers; a run
// with a leading zero counts as a decimal fraction does.
func compareNatural(a, b string) int {
	for x, y := a, b; ; {
		switch {
		case x == "" || y == "":
			return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(a, b))
		case isDigit(x[0]) && isDigit(y[0]):
			n, m := run(x), run(y)
			if x[0] != '0' && y[0] != '0' && n != m {
				return cmp.Compare(n, m)
			}
			if c := strings.Compare(x[:n], y[:m]); c != 0 {
				return c
			}
			x, y = x[n:], y[m:]
		case x[0] != y[0]:
			return cmp.Compare(x[0], y[0])
		default:
			x, y = x[1:], y[1:]
		}
	}
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func run(s string) int {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	return n
}
