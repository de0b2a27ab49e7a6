package measure

import (
	"bufio"
	"bytes"
	"context"
	"regexp"
	"strconv"
	"strings"
)

// APIRequests returns how many requests of each verb and resource the API server
// has answered, watches not counted.
func (k *Kube) APIRequests(ctx context.Context) (map[string]float64, error) {
	text, err := k.Client.CoreV1().RESTClient().Get().AbsPath("/metrics").SetHeader("Accept", "text/plain").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	return SumMetric(text, "apiserver_request_total", "verb", "resource", "subresource"), nil
}

var labelPattern = regexp.MustCompile(`([a-zA-Z_]+)="([^"]*)"`)

// SumMetric sums a counter up by some of its labels, whose values are joined by a
// space. What is labelled as a watch isn't counted.
func SumMetric(text []byte, metric string, by ...string) map[string]float64 {
	out := map[string]float64{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(make([]byte, 1<<20), 1<<24)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), metric+"{")
		if !ok {
			continue
		}
		end := strings.LastIndex(rest, "} ")
		if end < 0 {
			continue
		}
		value, _, _ := strings.Cut(rest[end+2:], " ")
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue
		}
		labels := map[string]string{}
		for _, m := range labelPattern.FindAllStringSubmatch(rest[:end], -1) {
			labels[m[1]] = m[2]
		}
		if strings.EqualFold(labels["verb"], "WATCH") {
			continue
		}
		var key []string
		for _, name := range by {
			if labels[name] != "" {
				key = append(key, labels[name])
			}
		}
		out[strings.Join(key, " ")] += n
	}
	return out
}

// Since returns what was added to counters since before, without those that stood still.
func Since(before, now map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for key, n := range now {
		if d := n - before[key]; d > 0 {
			out[key] = d
		}
	}
	return out
}
