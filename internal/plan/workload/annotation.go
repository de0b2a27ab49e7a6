package workload

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/slurm"
)

const mebi = 1 << 20

// Settings are the job annotations of a workload, parsed.
type Settings struct {
	Account, Constraints, GRES, GroupID, JobName, Licenses string
	Partition, QOS, Reservation, UserID, WCKey             string
	// CPUPerTask, MaxNodes and MinNodes are 0 where not given.
	CPUPerTask, MaxNodes, MinNodes uint32
	// MemPerNode is in MiB, TimeLimit in minutes.
	MemPerNode, TimeLimit, Priority slurm.Number
	// Shared is whether the job may share nodes with others, nil where it isn't said.
	Shared *bool
	// Ignored are annotations that look like job annotations but have no effect:
	// unknown ones, and those with the prefix of releases before 1.0.
	Ignored []string
}

// ParseAnnotations reads the job annotations. The error holds one sentence for
// each annotation that can't be used.
func ParseAnnotations(annotations map[string]string) (Settings, error) {
	var s Settings
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if old, ok := strings.CutPrefix(key, v1beta1.JobAnnotationOldPrefix); ok {
			if known(v1beta1.JobAnnotationPrefix + old) {
				s.Ignored = append(s.Ignored, key)
			}
			continue
		}
		if !strings.HasPrefix(key, v1beta1.JobAnnotationPrefix) {
			continue
		}
		if !known(key) {
			s.Ignored = append(s.Ignored, key)
			continue
		}
		if err := s.set(key, annotations[key]); err != nil {
			errs = append(errs, fmt.Errorf("annotation %s: %w", key, err))
		}
	}
	if s.MinNodes > 0 && s.MaxNodes > 0 && s.MinNodes > s.MaxNodes {
		errs = append(errs, fmt.Errorf("annotation %s is %d, more than the %d of %s",
			v1beta1.AnnotationMinNodes, s.MinNodes, s.MaxNodes, v1beta1.AnnotationMaxNodes))
	}
	return s, errors.Join(errs...)
}

func (s *Settings) set(key, value string) error {
	if text := s.text(key); text != nil {
		if strings.ContainsAny(value, "\n\r\x00") {
			return errors.New("the value holds a line break")
		}
		// A blank says nothing: whoever asks for nothing gets what the namespace gives.
		if value = strings.TrimSpace(value); value != "" {
			*text = value
		}
		return nil
	}
	var err error
	switch key {
	case v1beta1.AnnotationCPUPerTask:
		s.CPUPerTask, err = parseCPUs(value)
	case v1beta1.AnnotationMaxNodes:
		s.MaxNodes, err = parseCount(value)
	case v1beta1.AnnotationMinNodes:
		s.MinNodes, err = parseCount(value)
	case v1beta1.AnnotationMemPerNode:
		s.MemPerNode, err = parseMemory(value)
	case v1beta1.AnnotationTimeLimit:
		s.TimeLimit, err = parseTimeLimit(value)
	case v1beta1.AnnotationPriority:
		var n uint64
		n, err = parseInt32(value, "a whole number of 0 or more")
		s.Priority = slurm.NumberOf(n)
	case v1beta1.AnnotationExclusive:
		shared := strings.ToLower(strings.TrimSpace(value)) == "false"
		s.Shared = &shared
	}
	return err
}

// text returns the field of an annotation that is taken as it stands, nil for others.
func (s *Settings) text(key string) *string {
	switch key {
	case v1beta1.AnnotationAccount:
		return &s.Account
	case v1beta1.AnnotationConstraints:
		return &s.Constraints
	case v1beta1.AnnotationGRES:
		return &s.GRES
	case v1beta1.AnnotationGroupID:
		return &s.GroupID
	case v1beta1.AnnotationJobName:
		return &s.JobName
	case v1beta1.AnnotationLicenses:
		return &s.Licenses
	case v1beta1.AnnotationPartition:
		return &s.Partition
	case v1beta1.AnnotationQOS:
		return &s.QOS
	case v1beta1.AnnotationReservation:
		return &s.Reservation
	case v1beta1.AnnotationUserID:
		return &s.UserID
	case v1beta1.AnnotationWCKey:
		return &s.WCKey
	}
	return nil
}

func known(key string) bool {
	var s Settings
	switch key {
	case v1beta1.AnnotationCPUPerTask, v1beta1.AnnotationExclusive, v1beta1.AnnotationGangSize, v1beta1.AnnotationMaxNodes,
		v1beta1.AnnotationMemPerNode, v1beta1.AnnotationMinNodes, v1beta1.AnnotationPriority,
		v1beta1.AnnotationTimeLimit:
		return true
	}
	return s.text(key) != nil
}

func parseInt32(value, want string) (uint64, error) {
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is not %s up to %d", value, want, math.MaxInt32)
	}
	return uint64(n), nil
}

func parseCount(value string) (uint32, error) {
	n, err := parseInt32(value, "a whole number of 1 or more")
	if err == nil && n == 0 {
		err = fmt.Errorf("%q is not a whole number of 1 or more", value)
	}
	return uint32(n), err
}

func parseTimeLimit(value string) (slurm.Number, error) {
	n, err := parseInt32(value, "a whole number of minutes")
	if err != nil {
		return slurm.Number{}, err
	}
	if n == 0 {
		return slurm.Infinite(), nil
	}
	return slurm.NumberOf(n), nil
}

func parseCPUs(value string) (uint32, error) {
	q, err := resource.ParseQuantity(value)
	if err != nil {
		return 0, fmt.Errorf("%q is not a quantity of CPUs such as 4 or 1500m", value)
	}
	n := q.Value()
	if n < 1 || n > maxCPUs {
		return 0, fmt.Errorf("%q is not between 1 and %d CPUs", value, maxCPUs)
	}
	return uint32(n), nil
}

func parseMemory(value string) (slurm.Number, error) {
	q, err := resource.ParseQuantity(value)
	if err != nil {
		return slurm.Number{}, fmt.Errorf("%q is not a quantity of memory such as 512Mi or 4Gi", value)
	}
	if q.Sign() <= 0 {
		return slurm.Number{}, fmt.Errorf("%q is not more than 0", value)
	}
	return slurm.NumberOf(mebibytes(whole(q))), nil
}

// mebibytes rounds up, so that a job never gets less than its pods ask for, and
// never 0, which means the whole node to Slurm.
func mebibytes(bytes int64) uint64 {
	if bytes <= 0 {
		return 1
	}
	return uint64((bytes-1)/mebi + 1)
}
