package conf

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/slinky-hpc/slinky/slurm/hostlist"
	"github.com/slinky-hpc/slinky/slurm/tres"
)

// GresConf is gres.conf, which says what devices stand behind the resources of nodes.
type GresConf struct {
	// AutoDetect is how slurmd finds devices on all nodes: "nvidia", "nvml", "rsmi",
	// "oneapi", "nrt", "full" or "off"; empty leaves it to Slurm.
	AutoDetect string
	Lines      []GresLine
}

// GresLine is one line of gres.conf.
type GresLine struct {
	// Nodes are the nodes that the line is for, none for all.
	Nodes []string
	// AutoDetect is that of the file, for these nodes. A line may have nothing else.
	AutoDetect string
	Name, Type string
	// Count is left out if it is 0; Slurm then counts the files.
	Count uint64
	// File is the device or devices, as "/dev/nvidia[0-3]".
	File string
	// Cores are Slurm's abstract numbers of the cores near the devices.
	Cores []int
	// Links are how many links the device has to each other device, -1 for itself.
	Links []int
	// Flags such as "CountOnly" or "nvidia_gpu_env".
	Flags []string
}

// Text returns the file.
func (c GresConf) Text() (string, error) {
	var d Document
	if c.AutoDetect != "" {
		d.Line(d.word("AutoDetect", c.AutoDetect))
	}
	for i, l := range c.Lines {
		l.write(&d, i+1)
	}
	return d.Text()
}

func (l GresLine) write(d *Document, number int) {
	var pairs []Pair
	add := func(key, value string) {
		if value != "" {
			pairs = append(pairs, d.word(key, value))
		}
	}
	if len(l.Nodes) > 0 {
		pairs = append(pairs, Pair{"NodeName", nodeNames(d, fmt.Sprintf("gres.conf, line %d", number), l.Nodes)})
	}
	add("AutoDetect", l.AutoDetect)
	add("Name", l.Name)
	add("Type", l.Type)
	if l.Name == "" && (l.AutoDetect == "" || l.Type != "" || l.Count != 0 || l.File != "" || len(l.Cores) > 0 || len(l.Links) > 0 || len(l.Flags) > 0) {
		d.errs = append(d.errs, fmt.Errorf("gres.conf, line %d: a resource has no name", number))
		return
	}
	if l.Count > 0 {
		add("Count", strconv.FormatUint(l.Count, 10))
	}
	if l.File != "" {
		if !strings.HasPrefix(l.File, "/") || strings.ContainsAny(l.File, " \t") {
			d.fail("File", l.File, errors.New("is no absolute path, or has a blank"))
		}
		pairs = append(pairs, Pair{"File", l.File})
	}
	if len(l.Cores) > 0 {
		pairs = append(pairs, Pair{"Cores", tres.FormatIndexes(l.Cores)})
	}
	if len(l.Links) > 0 {
		pairs = append(pairs, Pair{"Links", numbers(l.Links)})
	}
	for _, f := range l.Flags {
		d.word("Flags", f)
	}
	if len(l.Flags) > 0 {
		pairs = append(pairs, Pair{"Flags", strings.Join(l.Flags, ",")})
	}
	d.Line(pairs...)
}

func numbers(list []int) string {
	texts := make([]string, len(list))
	for i, n := range list {
		texts[i] = strconv.Itoa(n)
	}
	return strings.Join(texts, ",")
}

var (
	wordPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.+/-]*$`)
	// namePattern is a word that can stand in a hostlist and between colons.
	namePattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
	// longNumber is more than the numbers at a name's end that Slurm has room for.
	longNumber = regexp.MustCompile(`[0-9]{19,}$`)
)

// word checks a value that Slurm takes as one word.
func (d *Document) word(key, value string) Pair {
	if !wordPattern.MatchString(value) {
		d.fail(key, value, errors.New("is no word of letters, digits and _ . + - /"))
	}
	return Pair{key, value}
}

// checkName tells whether a node, a switch and their like can have the name.
func checkName(name string) error {
	switch {
	case !namePattern.MatchString(name):
		return errors.New("is no name of letters, digits, underscores, dots and dashes")
	case longNumber.MatchString(name):
		return errors.New("ends in a number of more than 18 digits, which Slurm's host lists have no room for")
	}
	return nil
}

// nodeNames returns names as a host list, each once and sorted.
func nodeNames(d *Document, field string, names []string) string {
	for _, n := range names {
		if err := checkName(n); err != nil {
			d.fail(field, n, err)
		}
	}
	return hostlist.Compress(names)
}
