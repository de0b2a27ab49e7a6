package submit

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
)

// planned is a job to ask for.
type planned struct {
	slurm.JobRequest
	// better is what to exclude at first, so that the job starts where its pods like it; nil for no preference.
	better []string
	// now is the request that starts at once on nodes that have room now, nil where that is the same; full tells that none has.
	now  *slurm.JobRequest
	full bool
	// started tells that Slurm has started the job at once.
	started bool
	// parts are the requests for the components of a heterogeneous job, where there can't be one for all; else none.
	parts []slurm.JobRequest
	// feasible is which nodes suit.
	feasible workload.Feasibility
	// view is the number of the view of nodes that the plan was made from.
	view uint64
}

// request plans the job; held tells why there can't be one.
func (s *Submitter) request(ctx context.Context, g workload.Group, pods []*corev1.Pod) (planned, held, error) {
	p := planned{}
	nodes, err := s.nodes()
	if err != nil {
		return p, held{}, err
	}
	p.view = nodes.number
	invalid := func(err error) (planned, held, error) {
		return p, held{reason: reasonInvalid, text: err.Error(), warn: true}, nil
	}
	f := nodes.feasible(pods, storage{s.Sources.Claims, s.Sources.Volumes, s.Sources.Classes}, workload.Partition(g, s.Policy))
	f = s.without(s.served(f, pods), g.Key)
	f, missing, err := s.claimed(ctx, f, pods)
	switch {
	case err != nil:
		return p, held{}, err
	case missing != "":
		return p, held{reason: reasonClaims, text: missing, warn: true}, nil
	}
	social := slices.ContainsFunc(pods, workload.Social) || s.averse()
	particular := nodes.softTaints || slices.ContainsFunc(pods, workload.Particular)
	var o workload.Others
	if social || particular {
		if o, err = s.others(pods); err != nil {
			return p, held{}, err
		}
	}
	if social {
		if f, err = workload.Beside(f, nodes.Fleet, pods, o); err != nil {
			return invalid(err)
		}
	}
	p.JobRequest, err = workload.Request(g, pods, f, s.Policy)
	switch room := (workload.NoRoomError{}); {
	case errors.As(err, &room):
		if p.parts = workload.Uneven(g, pods, f, s.Policy); p.parts != nil {
			return p, held{}, nil
		}
		return p, held{reason: reasonNoNode, text: room.Error(), warn: true}, nil
	case err != nil:
		return invalid(err)
	}
	need := int(p.MinimumNodes)
	if len(f.Excluded) > 0 && f.Usable() < need {
		return p, held{reason: reasonNoNode, text: f.Sentence(need), warn: true}, nil
	}
	s.plan(&p, g, pods, f, nodes)
	if particular {
		if p.better = workload.Prefer(f, nodes.Fleet, pods, o, need); p.better != nil {
			// The request may exclude more.
			p.better = slices.Compact(slices.Sorted(slices.Values(append(p.better, p.ExcludedNodes...))))
		}
	}
	return p, held{}, nil
}

// maxCrowded is how many crowded nodes a request names at most.
const maxCrowded = 64

// plan plans for nodes as they are now, where the job may share them: Slurm doesn't know what
// pods that no job covers have there.
func (s *Submitter) plan(p *planned, g workload.Group, pods []*corev1.Pod, f workload.Feasibility, nodes *nodeView) {
	f.Now = s.now(nodes)
	p.feasible = f
	if p.Exclusive || s.Index.Pending(p.Partition) != 0 {
		return // it has whole nodes, or isn't to start at once
	}
	p.now, p.full = workload.AtOnce(p.JobRequest, g, pods, f, s.Policy, maxCrowded)
}

// averse tells whether any pod at all keeps others away.
func (s *Submitter) averse() bool {
	return len(s.Sources.Pods.Informer().GetIndexer().ListIndexFuncValues(indexAverse)) > 0
}

// ask has Slurm start a job at once, or queue it where that can't be. Behind jobs
// that wait for the same partition it is queued without the attempt: slurmctld
// would refuse it for them, and keep a record of each refusal.
func (s *Submitter) ask(ctx context.Context, reqs []planned) (uint32, error) {
	if len(reqs) > 1 {
		parts := make([]slurm.JobRequest, 0, len(reqs))
		for _, p := range reqs {
			parts = append(parts, p.JobRequest)
		}
		return s.Slurm.SubmitHet(ctx, parts)
	}
	if id, err := s.askNow(ctx, &reqs[0]); err != nil || id != 0 {
		return id, err
	}
	// What can't start now may be queued. What can't be at all is refused once more, with the reason.
	return s.Slurm.Submit(ctx, reqs[0].JobRequest)
}

// askNow has Slurm start a job at once, and notes what was asked for. It returns 0 where that can't be.
func (s *Submitter) askNow(ctx context.Context, p *planned) (uint32, error) {
	if p.full || s.Index.Pending(p.Partition) != 0 {
		return 0, nil
	}
	req := p.JobRequest
	if p.now != nil {
		req = *p.now
	}
	tries := [][]string{req.ExcludedNodes}
	if p.better != nil && len(req.RequiredNodes) == 0 {
		tries = [][]string{slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(p.better), req.ExcludedNodes...)))), req.ExcludedNodes}
	}
	for _, excluded := range tries {
		req.ExcludedNodes = excluded
		id, err := s.Slurm.AllocateNow(ctx, req)
		if !errors.Is(err, slurm.ErrBusy) && !errors.Is(err, slurm.ErrInvalid) {
			p.JobRequest, p.started = req, err == nil
			return id, err
		}
	}
	return 0, nil
}

// askAll asks for one job that starts at once, for all members that there are where fewer
// could start. It returns 0 where there can't be such a one.
func (s *Submitter) askAll(ctx context.Context, g workload.Group, pods []*corev1.Pod) (uint32, []planned, error) {
	p, why, err := s.request(ctx, g, pods)
	if err != nil || why.reason != "" || p.parts != nil {
		return 0, nil, err
	}
	id, err := s.askNow(ctx, &p)
	return id, []planned{p}, err
}

// askAlike asks for one job whose nodes are all fit for any of the pods. It returns
// the refusal of the job before where there can't be such a one.
func (s *Submitter) askAlike(ctx context.Context, g workload.Group, pods []*corev1.Pod, refusal error) (uint32, []planned, error) {
	g.Shapes = false
	reqs, why, err := s.requests(ctx, g, pods)
	if err == nil && why.reason != "" {
		err = refusal
	}
	if err != nil {
		return 0, nil, err
	}
	id, err := s.ask(ctx, reqs)
	return id, reqs, err
}

// requests plans the job, with a request for each of its components; held tells why there can't be one.
func (s *Submitter) requests(ctx context.Context, g workload.Group, pods []*corev1.Pod) ([]planned, held, error) {
	workload.ByRank(pods)
	parts := workload.Components(g, pods)
	reqs := make([]planned, 0, len(parts))
	for _, part := range parts {
		p, why, err := s.request(ctx, g, part)
		if err != nil || why.reason != "" {
			return nil, why, err
		}
		if p.parts == nil {
			reqs = append(reqs, p)
		}
		for _, req := range p.parts {
			reqs = append(reqs, planned{JobRequest: req, view: p.view})
		}
	}
	return reqs, held{}, nil
}
