package policy

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/internal/plan/workload"
	"github.com/slinky-hpc/slinky/slurm"
)

// tenant is a namespace with its rules, and with what is its own by them.
type tenant struct {
	rules                                    map[string]string
	users, accounts, partitions, qos, wckeys []string
	minutes, priority                        uint64
	reservation                              string
	licences                                 uint64
}

// own makes a tenant whose values nobody else has.
func own(r *rand.Rand, i int) tenant {
	some := func(kind string) []string {
		var out []string
		for n := range 1 + r.IntN(3) {
			out = append(out, fmt.Sprintf("%s-%d-%d", kind, i, n))
		}
		return out
	}
	x := tenant{
		users: some("user"), accounts: some("account"), partitions: some("partition"), qos: some("qos"), wckeys: some("wckey"),
		minutes: 1 + r.Uint64N(1000), priority: r.Uint64N(1000), reservation: fmt.Sprintf("reservation-%d", i), licences: 1 + r.Uint64N(5),
	}
	x.rules = namespace(
		"allowed/user-id", strings.Join(x.users, ","), "allowed/account", strings.Join(x.accounts, ", "), "allowed/partition", strings.Join(x.partitions, ","),
		"allowed/qos", strings.Join(x.qos, ","), "allowed/wckey", strings.Join(x.wckeys, ","), "allowed/reservation", x.reservation,
		"allowed/licenses", fmt.Sprintf("tool:%d", x.licences),
		"allowed/timelimit", strconv.FormatUint(x.minutes, 10), "allowed/priority", strconv.FormatUint(x.priority, 10))
	return x
}

// attempt is what somebody writes who wants more: values of all tenants, and tricks with them.
func attempt(r *rand.Rand, all []tenant) map[string]string {
	any := func(of func(tenant) []string) string {
		v := of(all[r.IntN(len(all))])
		value := v[r.IntN(len(v))]
		other := of(all[r.IntN(len(all))])[0]
		tricks := []string{value, value, value, " " + value, value + " ", value + "," + other, "," + value, value + ",", strings.ToUpper(value), "root", "0", "", " ", "*", value + "\t", value + ";" + other, value + "|" + other}
		return tricks[r.IntN(len(tricks))]
	}
	number := func() string {
		return []string{"0", "-1", "00010", strconv.Itoa(r.IntN(2000)), "2147483647", "99999999999", "1e3", " 5", "+5", "0x10", ""}[r.IntN(11)]
	}
	full := map[string]func() string{
		"user-id":     func() string { return any(func(t tenant) []string { return t.users }) },
		"group-id":    func() string { return any(func(t tenant) []string { return t.users }) },
		"account":     func() string { return any(func(t tenant) []string { return t.accounts }) },
		"partition":   func() string { return any(func(t tenant) []string { return t.partitions }) },
		"qos":         func() string { return any(func(t tenant) []string { return t.qos }) },
		"wckey":       func() string { return any(func(t tenant) []string { return t.wckeys }) },
		"reservation": func() string { return any(func(t tenant) []string { return []string{t.reservation} }) },
		"licenses": func() string {
			return []string{"tool", "tool:2", "tool:9", "tool:2,tool:2", "tool=3", "other", "tool|other", "tool:-1", "tool:4294967297"}[r.IntN(9)]
		},
		"timelimit": number, "priority": number,
	}
	out := map[string]string{}
	for _, suffix := range slices.Sorted(maps.Keys(full)) {
		value := full[suffix]()
		if r.IntN(3) == 0 {
			out[job+suffix] = value
		}
	}
	return out
}

// TestTenantsStayAmongThemselves: whatever a tenant writes, a job that is let through has
// nothing that isn't the tenant's own.
func TestTenantsStayAmongThemselves(t *testing.T) {
	passed := 0
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 1))
		var all []tenant
		for i := range 3 {
			all = append(all, own(r, i))
		}
		for range 50 {
			me := all[r.IntN(len(all))]
			rules := For(Settings{Restricted: r.IntN(2) == 0, Partition: "slurm-bridge"}, "mine", me.rules, nil)
			asked := attempt(r, all)
			deadline := int64(r.IntN(200000))
			group := workload.Group{Annotations: rules.Complete(asked), DeadlineSeconds: deadline}
			if group.Forbidden = rules.Check(group.Annotations, deadline); group.Forbidden != nil {
				continue
			}
			req, err := request(group)
			if err != nil {
				continue
			}
			passed++
			if why := me.owns(req); why != "" {
				t.Fatalf("seed %d: %v became %+v: %s", seed, asked, req, why)
			}
		}
	}
	if passed < 200 {
		t.Errorf("only %d attempts passed: this shows nothing", passed)
	}
}

func request(g workload.Group) (slurm.JobRequest, error) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "mine", Name: "p", UID: "u"}}
	return workload.Request(g, []*corev1.Pod{pod}, workload.Feasibility{}, workload.Policy{Partition: "slurm-bridge"})
}

// owns tells what of a job isn't the tenant's.
func (x tenant) owns(req slurm.JobRequest) string {
	in := func(list []string, value string) bool {
		return !slices.ContainsFunc(strings.Split(value, ","), func(item string) bool { return !slices.Contains(list, item) })
	}
	switch {
	case !slices.Contains(x.users, req.UserID):
		return "user"
	case req.GroupID != "":
		return "group"
	case !slices.Contains(x.accounts, req.Account):
		return "account"
	case !in(x.partitions, req.Partition):
		return "partition"
	case !in(x.qos, req.QOS):
		return "QOS"
	case !slices.Contains(x.wckeys, req.WCKey):
		return "wckey"
	case req.Reservation != "" && !in([]string{x.reservation}, req.Reservation):
		return "reservation"
	case req.Priority.Set && (req.Priority.Infinite || req.Priority.Value > x.priority):
		return "priority"
	case !req.TimeLimit.Set || req.TimeLimit.Infinite || req.TimeLimit.Value > x.minutes:
		return "time limit"
	case req.Licenses != "" && !slices.Contains([]string{"tool", "tool:2", "tool=3", "tool:9", "tool:2,tool:2"}, req.Licenses):
		return "licences"
	}
	var sum uint64
	for _, l := range strings.Split(req.Licenses, ",") {
		if l == "" {
			continue
		}
		n := uint64(1)
		if i := strings.LastIndexAny(l, ":="); i > 0 {
			n, _ = strconv.ParseUint(l[i+1:], 10, 32)
		}
		sum += n
	}
	if sum > x.licences {
		return "licences"
	}
	return ""
}
