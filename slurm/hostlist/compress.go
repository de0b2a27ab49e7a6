package hostlist

import (
	"cmp"
	"slices"
	"strings"
)

// Compress returns a short expression for a set of names: each once, sorted by
// prefix and number as Slurm sorts. Expand of the result gives that sorted set.
// Empty names are left out.
func Compress(names []string) string {
	hosts := make([]host, 0, len(names))
	var runs []run
	for _, name := range names {
		if name == "" {
			continue
		}
		prefix, h := split(name)
		if n := len(runs) - 1; n < 0 || runs[n].prefix != prefix {
			runs = append(runs, run{prefix: prefix, from: len(hosts)})
		}
		hosts = append(hosts, h)
		runs[len(runs)-1].to = len(hosts)
	}
	if byPrefix := func(a, b run) int { return compareNatural(a.prefix, b.prefix) }; !slices.IsSortedFunc(runs, byPrefix) {
		slices.SortFunc(runs, byPrefix)
	}
	var w writer
	var merged []host
	for i := 0; i < len(runs); {
		set := hosts[runs[i].from:runs[i].to]
		j := i + 1
		for ; j < len(runs) && runs[j].prefix == runs[i].prefix; j++ {
			if j == i+1 {
				merged = append(merged[:0], set...)
			}
			merged = append(merged, hosts[runs[j].from:runs[j].to]...)
			set = merged
		}
		sortHosts(set)
		for _, h := range slices.Compact(set) {
			w.add(runs[i].prefix, h)
		}
		i = j
	}
	return w.finish()
}

// run is where neighbours of one prefix lie in a list of hosts.
type run struct {
	prefix   string
	from, to int
}

// sortHosts sorts by the bytes that differ, the lowest first: few, as hosts of
// one prefix mostly differ in a few digits.
func sortHosts(set []host) {
	if len(set) < 256 || slices.IsSorted(set) {
		slices.Sort(set)
		return
	}
	var differ host
	for _, h := range set {
		differ |= h ^ set[0]
	}
	from, to := set, make([]host, len(set))
	for shift := 0; shift < 64; shift += 8 {
		if differ>>shift&0xff == 0 {
			continue
		}
		var ends [256]int
		for _, h := range from {
			ends[h>>shift&0xff]++
		}
		for i := 1; i < len(ends); i++ {
			ends[i] += ends[i-1]
		}
		for _, h := range slices.Backward(from) {
			b := h >> shift & 0xff
			ends[b]--
			to[ends[b]] = h
		}
		from, to = to, from
	}
	copy(set, from)
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
	same := 0
	for same < len(a) && same < len(b) && a[same] == b[same] {
		same++
	}
	for same > 0 && isDigit(a[same-1]) {
		same-- // back to where the number begins in which they differ
	}
	for x, y := a[same:], b[same:]; ; {
		switch {
		case x == "" || y == "":
			return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(a, b))
		case isDigit(x[0]) && isDigit(y[0]):
			n, m := leadingDigits(x), leadingDigits(y)
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

func leadingDigits(s string) int {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	return n
}
