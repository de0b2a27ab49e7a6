package exporter

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// page collects samples by the names of their metrics.
type page struct {
	families map[string]*dto.MetricFamily
	seen     map[string]bool
	// rooms is how many values of some labels have series; cut how many have none of their own.
	rooms, cut map[string]int
}

func newPage() *page {
	return &page{families: map[string]*dto.MetricFamily{}, seen: map[string]bool{}, rooms: map[string]int{}, cut: map[string]int{}}
}

// room tells whether another value of a label may have series, and counts it.
func (p *page) room(label string, limit int) bool {
	p.rooms[label]++
	p.cut[label] = max(0, p.rooms[label]-limit)
	return p.rooms[label] <= limit
}

// gauge adds a sample; labels are names and values in turn. Of samples with one name and the
// same labels only the first counts: twice the same would make Prometheus refuse them all.
func (p *page) gauge(name, help string, value float64, labels ...string) {
	// The published exporter calls what rises and falls a total. For Prometheus that is a counter's name, so
	// these have no type: whoever takes rates of them isn't told that he may.
	if strings.HasSuffix(name, "_total") {
		if m := p.add(name, help, dto.MetricType_UNTYPED, labels); m != nil {
			m.Untyped = &dto.Untyped{Value: &value}
		}
		return
	}
	if m := p.add(name, help, dto.MetricType_GAUGE, labels); m != nil {
		m.Gauge = &dto.Gauge{Value: &value}
	}
}

// counter adds a sample of what only grows until slurmctld counts anew.
func (p *page) counter(name, help string, value float64, labels ...string) {
	if m := p.add(name, help, dto.MetricType_COUNTER, labels); m != nil {
		m.Counter = &dto.Counter{Value: &value}
	}
}

func (p *page) add(name, help string, kind dto.MetricType, labels []string) *dto.Metric {
	key := name + "\xff" + strings.Join(labels, "\xff")
	if p.seen[key] {
		return nil
	}
	p.seen[key] = true
	f := p.families[name]
	if f == nil {
		f = &dto.MetricFamily{Name: &name, Help: &help, Type: &kind}
		p.families[name] = f
	}
	m := &dto.Metric{}
	for i := 0; i+1 < len(labels); i += 2 {
		value := text(labels[i+1], maxLabel)
		m.Label = append(m.Label, &dto.LabelPair{Name: &labels[i], Value: &value})
	}
	f.Metric = append(f.Metric, m)
	return m
}

// maxLabel is how long a label's value may be, in bytes: some are free text.
const maxLabel = 200

// text makes a label's value of any text: valid UTF-8, one line, not too long.
func text(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if strings.ContainsAny(s, "\n\r\t") {
		s = strings.Join(strings.Fields(s), " ")
	}
	if len(s) <= limit {
		return s
	}
	s = s[:limit-len("…")]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s + "…"
}

// write writes the page in Prometheus' text format, in the order of names and labels.
func (p *page) write(w io.Writer) error {
	for _, name := range slices.Sorted(maps.Keys(p.families)) {
		slices.SortFunc(p.families[name].Metric, func(a, b *dto.Metric) int {
			return slices.CompareFunc(a.Label, b.Label, func(a, b *dto.LabelPair) int { return cmp.Compare(a.GetValue(), b.GetValue()) })
		})
		if _, err := expfmt.MetricFamilyToText(w, p.families[name]); err != nil {
			return fmt.Errorf("write metric %s: %w", name, err)
		}
	}
	return nil
}

// when is a time as Prometheus wants it, 0 for none.
func when(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

// inBytes turns Slurm's MiB into bytes.
func inBytes(mebibytes uint64) float64 { return float64(mebibytes) * (1 << 20) }
