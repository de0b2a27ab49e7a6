package debian

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/slinky-hpc/slinky/internal/box/hostcmd"
)

// Suite is the Debian suite that the box and the images are made of.
const Suite = "forky"

// StableSuite has the packages of the images that Suite lacks.
const StableSuite = "trixie"

// Mirror returns the address of the Debian mirror that this machine's apt uses.
func Mirror(ctx context.Context) (string, error) {
	text, err := hostcmd.Output(ctx, hostcmd.Cmd{
		Args: []string{"apt-get", "indextargets", "--format", "$(SITE)\t$(ORIGIN)\t$(LABEL)", "Created-By: Packages"},
	})
	if err != nil {
		return "", fmt.Errorf("find this machine's Debian mirror: %w", err)
	}
	return chooseMirror(text)
}

// chooseMirror reads lines of site, origin and label. Before the first `apt-get update` apt knows no origins.
func chooseMirror(targets string) (string, error) {
	var guess string
	for line := range strings.Lines(targets) {
		field := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if len(field) != 3 || field[0] == "" {
			continue
		}
		site := strings.TrimSuffix(field[0], "/")
		if field[1] == "Debian" && field[2] == "Debian" {
			return site, nil
		}
		if guess == "" && strings.HasSuffix(site, "/debian") {
			guess = site
		}
	}
	if guess == "" {
		return "", errors.New("this machine's apt sources have no Debian mirror: add one to /etc/apt/sources.list.d, run `apt-get update` and try again")
	}
	return guess, nil
}

// FetchOptions returns this machine's own apt settings for reaching the mirror (proxies, certificates, retries), as lines of an
// apt.conf, with the options that a build needs. A mirror may be frozen, so that its Release file is past its date; signatures
// are checked all the same.
func FetchOptions(ctx context.Context) ([]string, error) {
	text, err := hostcmd.Output(ctx, hostcmd.Cmd{Args: []string{"apt-config", "dump", "--format", "%F \"%v\";%n", "Acquire"}})
	if err != nil {
		return nil, fmt.Errorf("read this machine's apt settings: %w", err)
	}
	options := []string{`Acquire::Check-Valid-Until "false";`, `Acquire::Languages "none";`, `APT::Install-Recommends "false";`}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		key, value, _ := strings.Cut(line, " ")
		lower := strings.ToLower(key)
		reach := strings.HasPrefix(lower, "acquire::http") || strings.HasPrefix(lower, "acquire::https") || lower == "acquire::retries" || lower == "acquire::check-date"
		if reach && value != `"";` && !strings.HasSuffix(key, "::") {
			options = append(options, line)
		}
	}
	return options, nil
}
