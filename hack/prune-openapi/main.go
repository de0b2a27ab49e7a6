// Prune-openapi cuts slurmrestd's OpenAPI document down to what package
// slurm/rest uses of one data parser version, so that the generated code stays
// small enough to read:
//
//	prune-openapi -plan slurm/rest/openapi.json -version v0.0.45 <openapi.json >slurm/rest/v0045/openapi.json
//
// The plan lists the operations and schemas that are used, and the properties
// of each schema. A name that the document doesn't have is an error, unless the
// plan marks it with "?", for what some version lacks: that is how a change in a
// new Slurm version is noticed.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	planFile := flag.String("plan", "", "file that lists what to keep")
	version := flag.String("version", "", "data parser version, as v0.0.45")
	flag.Parse()
	if err := run(*planFile, *version, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "prune-openapi:", err)
		os.Exit(1)
	}
}

func run(planFile, version string, in io.Reader, out io.Writer) error {
	if planFile == "" || version == "" {
		return errors.New("-plan and -version are needed")
	}
	raw, err := os.ReadFile(planFile)
	if err != nil {
		return err
	}
	var p plan
	strict := json.NewDecoder(bytes.NewReader(raw))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&p); err != nil {
		return fmt.Errorf("%s: %w", planFile, err)
	}
	var doc document
	if err := json.NewDecoder(in).Decode(&doc); err != nil {
		return fmt.Errorf("OpenAPI document on standard input: %w", err)
	}
	pruned, err := prune(doc, p, version)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", " ")
	enc.SetEscapeHTML(false)
	return enc.Encode(pruned)
}
