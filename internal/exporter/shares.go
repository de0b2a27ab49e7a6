package exporter

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/tres"
)

// shares adds what accounts and users were given, and have used.
func (p *page) shares(c *census, o Options) {
	// Of more than there is room for, those with the most use are shown.
	all := slices.SortedFunc(slices.Values(c.Shares), func(a, b slurm.Share) int {
		return cmp.Or(cmp.Compare(b.Usage, a.Usage), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Parent, b.Parent))
	})
	for _, s := range all {
		if s.Partition != "" {
			continue // the user has another for all partitions, or would be there twice
		}
		switch {
		case s.User && !o.NoUsers:
			p.share(o, "slurm_user_", s, "account", s.Parent, "username", s.Name)
		case !s.User && s.Parent != "" && !o.NoAccounts:
			p.share(o, "slurm_account_", s, "account", s.Name)
		}
	}
}

// share leaves out users and accounts beyond the limit: their shares can't be summed up.
func (p *page) share(o Options, prefix string, s slurm.Share, labels ...string) {
	if !p.room(prefix+"shares", o.limit()) {
		return
	}
	if n, ok := s.Shares.Get(); ok {
		p.gauge(prefix+"shares", "Shares that were given, beside those of its siblings.", float64(n), labels...)
	}
	p.gauge(prefix+"usage_billing_seconds", "What was used, in billing seconds that fade with time.", float64(s.Usage), labels...)
	for _, v := range []struct {
		name, help string
		value      *float64
	}{
		{"share_ratio", "The part of what its siblings have together that was given, from 0 to 1.", s.Normalized},
		{"usage_ratio", "The part of what its siblings used together that it used, from 0 to 1.", s.EffectiveUsage},
		{"fairshare_level", "What was given by what was used: above 1 less was used than given. Missing where nothing was used.", s.Level},
	} {
		if v.value != nil {
			p.gauge(prefix+v.name, v.help, *v.value, labels...)
		}
	}
	if s.User && s.Factor != nil {
		p.gauge(prefix+"fairshare", "The fair-share factor, from 0 to 1: the more the sooner its jobs start.", *s.Factor, labels...)
	}
}

// holder is who a limit is for: an account, or a user in one.
type holder struct{ account, user string }

// use is what the jobs of a holder have, by resource.
type use map[string]float64

// limits adds what accounts and users may have at once, and what they have of it. An account's limit
// is for all accounts below it, too.
func (p *page) limits(c *census, o Options) {
	parent := map[string]string{}
	limits := map[holder]use{}
	for i := range c.Associations {
		a := &c.Associations[i]
		if a.User == "" {
			parent[a.Account] = a.ParentAccount
		}
		if a.Partition == "" {
			if l := limitsOf(a); len(l) > 0 {
				limits[holder{a.Account, a.User}] = l
			}
		}
	}
	if len(limits) == 0 {
		return
	}
	have := used(c, limits, parent)
	for _, h := range slices.SortedFunc(maps.Keys(limits), func(a, b holder) int {
		return cmp.Or(cmp.Compare(a.account, b.account), cmp.Compare(a.user, b.user))
	}) {
		l := limits[h]
		prefix, labels := "slurm_account_limit", []string{"account", h.account}
		hidden := o.NoAccounts
		if h.user != "" {
			prefix, labels, hidden = "slurm_user_limit", append(labels, "username", h.user), o.NoUsers
		}
		if hidden || !p.room(prefix, o.limit()) {
			continue
		}
		for resource, most := range l {
			at := append(labels[:len(labels):len(labels)], "resource", resource)
			p.gauge(prefix, "The most that running jobs may have at once; jobs, CPUs, bytes of memory, devices.", most, at...)
			p.gauge(prefix+"_used", "What they have of it.", have[h][resource], at...)
		}
	}
}

// limitsOf are the limits of an association on what its jobs have at once.
func limitsOf(a *slurm.Association) use {
	out := use{}
	jobs := a.GrpJobs
	if n, ok := a.MaxJobs.Get(); ok && a.User != "" {
		if g, grouped := jobs.Get(); !grouped || n < g {
			jobs = slurm.NumberOf(n)
		}
	}
	if n, ok := jobs.Get(); ok {
		out["jobs"] = float64(n)
	}
	submitted := a.GrpSubmitJobs
	if n, ok := a.MaxSubmitJobs.Get(); ok && a.User != "" {
		if g, grouped := submitted.Get(); !grouped || n < g {
			submitted = slurm.NumberOf(n)
		}
	}
	if n, ok := submitted.Get(); ok {
		out["submitted_jobs"] = float64(n)
	}
	items, err := tres.Parse(a.GrpTRES)
	if err != nil {
		return out
	}
	for _, item := range items {
		name, n := resource(item)
		out[name] = n
	}
	return out
}

// resource is a TRES's name as a label, and how much it is: memory in bytes.
func resource(i tres.Item) (string, float64) {
	if i.Type == "mem" {
		return i.Type, inBytes(i.Count)
	}
	n := i.Count
	i.Count = 0
	name, _, _ := strings.Cut(i.String(), "=")
	return name, float64(n)
}

// used sums up what jobs have, for holders with a limit.
func used(c *census, limits map[holder]use, parent map[string]string) map[holder]use {
	out := map[holder]use{}
	for i := range c.Jobs {
		j := &c.Jobs[i]
		runs := j.States.HasAny(slurm.JobRunning, slurm.JobSuspended)
		if !runs && !j.States.Has(slurm.JobPending) {
			continue
		}
		var holders []holder
		if h := (holder{j.Account, j.User}); limits[h] != nil {
			holders = append(holders, h)
		}
		account := j.Account
		for depth := 0; account != "" && depth < 64; depth++ {
			if h := (holder{account, ""}); limits[h] != nil {
				holders = append(holders, h)
			}
			account = parent[account]
		}
		if len(holders) > 0 {
			add(out, holders, j, runs)
		}
	}
	return out
}

func add(sums map[holder]use, holders []holder, j *slurm.Job, runs bool) {
	items, err := tres.Parse(j.TRESAllocated)
	for _, h := range holders {
		if sums[h] == nil {
			sums[h] = use{}
		}
		sums[h]["submitted_jobs"] += float64(tasks(j.ArrayTasks))
		if !runs {
			continue
		}
		sums[h]["jobs"]++
		for _, item := range items {
			if err == nil {
				name, n := resource(item)
				sums[h][name] += n
			}
		}
	}
}
