package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

type plan struct {
	// Operations maps a path below the version to its methods. The path starts with the
	// plugin, as "slurm/" or "slurmdb/".
	Operations map[string][]string `json:"operations"`
	// Schemas are the roots; what they refer to is kept with them.
	Schemas []string `json:"schemas"`
	// Properties names what is kept of a schema; a schema without an entry is kept whole.
	// "schema.property" stands for an object that is written inside another.
	Properties map[string][]string `json:"properties"`
	// Pointers are properties for which "not given" and "empty" differ in a request.
	Pointers map[string][]string `json:"pointers"`
}

type schema = map[string]any

type document struct {
	Info struct {
		Version string `json:"version"`
	} `json:"info"`
	Paths      map[string]map[string]any `json:"paths"`
	Components struct {
		Schemas map[string]schema `json:"schemas"`
	} `json:"components"`
}

const dialectImport = "github.com/slinky-hpc/slinky/slurm/rest/dialect"

type pruner struct {
	plan    plan
	from    map[string]schema
	prefix  string
	kept    map[string]schema
	unknown []error
}

// prune returns a document that has only what the plan asks for. Enumerations
// and lists of required properties are left out: slurmrestd's answers keep to
// neither, and a new state word must not make a whole answer unreadable.
func prune(doc document, p plan, version string) (map[string]any, error) {
	pr := &pruner{plan: p, from: doc.Components.Schemas, prefix: version + "_", kept: map[string]schema{}}
	for _, path := range slices.Sorted(maps.Keys(p.Operations)) {
		plugin, rest, _ := strings.Cut(path, "/")
		full := "/" + plugin + "/" + version + "/" + rest
		for _, method := range p.Operations[path] {
			method, optional := strings.CutPrefix(method, "?")
			if _, ok := doc.Paths[full][method]; !ok && !optional {
				pr.missing("operation %s %s", method, full)
			}
		}
	}
	for _, name := range p.Schemas {
		name, optional := strings.CutPrefix(name, "?")
		if _, ok := pr.from[pr.prefix+name]; ok || !optional {
			pr.keep(name)
		}
	}
	for name := range p.Properties {
		name, optional := strings.CutPrefix(name, "?")
		if root, _, nested := strings.Cut(name, "."); pr.kept[root] == nil && !nested && !optional {
			pr.missing("schema %s, which the plan lists properties of,", name)
		}
	}
	return map[string]any{
		"openapi": "3.0.3",
		"info": map[string]any{
			"title":   "What package slurm/rest uses of slurmrestd's " + version,
			"version": doc.Info.Version,
		},
		"paths":      map[string]any{},
		"components": map[string]any{"schemas": pr.kept},
	}, errors.Join(pr.unknown...)
}

func (p *pruner) missing(format string, args ...any) {
	p.unknown = append(p.unknown, fmt.Errorf(format+" is not in the document", args...))
}

func (p *pruner) keep(name string) {
	if _, done := p.kept[name]; done {
		return
	}
	src, ok := p.from[p.prefix+name]
	if !ok {
		p.missing("schema %s%s", p.prefix, name)
		return
	}
	p.kept[name] = schema{} // stands in while the schema may refer to itself
	p.kept[name] = p.copy(name, src)
}

// copy returns the kept part of a schema. where is its name in the plan.
func (p *pruner) copy(where string, src schema) schema {
	if ref, ok := src["$ref"].(string); ok {
		name := strings.TrimPrefix(ref, "#/components/schemas/"+p.prefix)
		p.keep(name)
		return schema{"$ref": "#/components/schemas/" + name}
	}
	out := schema{}
	if d, ok := src["description"]; ok {
		out["description"] = d
	}
	if t := ownType(where, src); t != "" {
		out["type"] = src["type"]
		out["x-go-type"] = "dialect." + t
		out["x-go-type-import"] = map[string]any{"path": dialectImport}
		if src["type"] == "array" {
			out["items"] = schema{"type": "string"} // the generator wants some
		}
		return out
	}
	out["type"] = src["type"]
	if src["type"] == "integer" {
		out["format"] = "int64" // Slurm's 32-bit numbers are unsigned
	}
	if items, ok := src["items"].(map[string]any); ok {
		out["items"] = p.copy(where+"[]", items)
	}
	if props, ok := src["properties"].(map[string]any); ok {
		out["properties"] = p.properties(where, props)
	}
	return out
}

func (p *pruner) properties(where string, src map[string]any) schema {
	names, listed := p.plan.Properties[where]
	if !listed {
		names, listed = p.plan.Properties["?"+where]
	}
	if !listed {
		names = slices.Sorted(maps.Keys(src))
	}
	out := schema{}
	for _, name := range names {
		name, optional := strings.CutPrefix(name, "?")
		prop, ok := src[name].(map[string]any)
		if !ok {
			if !optional {
				p.missing("property %s of %s%s", name, p.prefix, where)
			}
			continue
		}
		kept := p.copy(where+"."+name, prop)
		if slices.Contains(p.plan.Pointers[where], name) {
			kept["x-go-type-skip-optional-pointer"] = false
		}
		out[name] = kept
	}
	return out
}

// ownType returns the hand-written type of package dialect that stands for a
// schema, where slurmrestd sends more than one form of it.
func ownType(where string, src schema) string {
	switch {
	case where == "float64_no_val_struct":
		return "Float"
	case where == "tres_list":
		return "TRES"
	case strings.HasSuffix(where, "_no_val_struct"):
		return "Number"
	}
	if items, ok := src["items"].(map[string]any); ok && items["type"] == "string" {
		return "Strings"
	}
	return ""
}
