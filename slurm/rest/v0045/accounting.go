package v0045

import (
	"cmp"
	"errors"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/rest/dialect"
)

func account(a Account) (slurm.Account, error) {
	return slurm.Account{Name: a.Name, Description: a.Description, Organization: a.Organization, Coordinators: names(a.Coordinators)}, named("account", a.Name)
}

func names(list CoordList) []string {
	var out []string
	for _, c := range list {
		out = append(out, c.Name)
	}
	return out
}

func createAccount(a slurm.AccountCreate) any {
	return OpenapiAccountsAddCondResp{
		Account: AccountShort{Description: cmp.Or(a.Description, a.Name), Organization: cmp.Or(a.Organization, a.Name)},
		AssociationCondition: AccountsAddCond{
			Accounts: StringList{a.Name}, Clusters: a.Clusters,
			Association: AssocRecSet{Parent: a.Parent, Fairshare: int64(a.Shares)},
		},
	}
}

func updateAccount(a slurm.Account) any {
	return OpenapiAccountsResp{Accounts: AccountList{{Name: a.Name, Description: a.Description, Organization: a.Organization}}}
}

func user(u User) (slurm.User, error) {
	out := slurm.User{Name: u.Name, DefaultAccount: u.Default.Account, DefaultWCKey: u.Default.Wckey, Coordinates: names(u.Coordinators)}
	if len(u.AdministratorLevel) > 0 && u.AdministratorLevel[0] != "Not Set" {
		out.AdminLevel = u.AdministratorLevel[0]
	}
	return out, named("user", u.Name)
}

func level(word string) dialect.Strings {
	if word == "" {
		return nil
	}
	return dialect.Strings{word}
}

// usersAddReq is an openapi_users_add_cond_resp whose user is there even if nothing is said of him: slurmrestd
// refuses one without.
type usersAddReq struct {
	AssociationCondition UsersAddCond `json:"association_condition"`
	User                 UserShort    `json:"user"`
}

func createUser(u slurm.UserCreate) any {
	return usersAddReq{
		User: UserShort{Adminlevel: level(u.AdminLevel), Defaultaccount: u.DefaultAccount},
		AssociationCondition: UsersAddCond{
			Users: StringList{u.Name}, Accounts: u.Accounts, Clusters: u.Clusters, Partitions: u.Partitions,
			Association: AssocRecSet{Fairshare: int64(u.Shares), Defaultqos: u.DefaultQOS, Qoslevel: u.QOS},
		},
	}
}

func updateUser(u slurm.User) any {
	out := User{Name: u.Name, AdministratorLevel: level(u.AdminLevel)}
	out.Default.Account, out.Default.Wckey = u.DefaultAccount, u.DefaultWCKey
	return OpenapiUsersResp{Users: UserList{out}}
}

// limit reads a limit: the database writes infinite for one that isn't there.
func limit(n dialect.Number) slurm.Number {
	if n.Infinite {
		return slurm.Number{}
	}
	return slurm.Number(n)
}

func association(a Assoc) (slurm.Association, error) {
	out := slurm.Association{
		AssociationKey: slurm.AssociationKey{Cluster: a.Cluster, Account: a.Account, User: a.User, Partition: a.Partition},
		ID:             uint32(a.Id), ParentAccount: a.ParentAccount, Lineage: a.Lineage, Default: a.IsDefault, Comment: a.Comment,
		DefaultQOS: a.Default.Qos, QOS: a.Qos, Priority: limit(a.Priority),
		MaxJobs: limit(a.Max.Jobs.Active), MaxSubmitJobs: limit(a.Max.Jobs.Total), MaxWallPerJob: limit(a.Max.Jobs.Per.WallClock),
		GrpJobs: limit(a.Max.Jobs.Per.Count), GrpSubmitJobs: limit(a.Max.Jobs.Per.Submitted),
		GrpTRES: string(a.Max.Tres.Total), MaxTRESPerJob: string(a.Max.Tres.Per.Job), MaxTRESPerNode: string(a.Max.Tres.Per.Node),
	}
	if a.SharesRaw != nil {
		out.Shares = slurm.NumberOf(count(*a.SharesRaw))
	}
	return out, errors.Join(named("cluster of an association", a.Cluster), named("account of an association", a.Account))
}

// assocsReq is an openapi_assocs_resp whose associations have a user, which an account's own has empty.
type assocsReq struct {
	Associations []assocReq `json:"associations"`
}

type assocReq struct {
	Assoc

	User string `json:"user"`
}

func putAssociation(a slurm.Association) any {
	out := Assoc{
		Cluster: a.Cluster, Account: a.Account, Partition: a.Partition, ParentAccount: a.ParentAccount,
		Comment: a.Comment, IsDefault: a.Default, Qos: a.QOS, Priority: dialect.Number(a.Priority),
	}
	out.Default.Qos = a.DefaultQOS
	if v, ok := a.Shares.Get(); ok {
		out.SharesRaw = new(int64(v))
	}
	m := &out.Max
	m.Jobs.Active, m.Jobs.Total = dialect.Number(a.MaxJobs), dialect.Number(a.MaxSubmitJobs)
	m.Jobs.Per.WallClock = dialect.Number(a.MaxWallPerJob)
	m.Jobs.Per.Count, m.Jobs.Per.Submitted = dialect.Number(a.GrpJobs), dialect.Number(a.GrpSubmitJobs)
	m.Tres.Total, m.Tres.Per.Job, m.Tres.Per.Node = dialect.TRES(a.GrpTRES), dialect.TRES(a.MaxTRESPerJob), dialect.TRES(a.MaxTRESPerNode)
	return assocsReq{[]assocReq{{Assoc: out, User: a.User}}}
}

func qos(q Qos) (slurm.QOS, error) {
	m := q.Limits.Max
	out := slurm.QOS{
		ID: uint32(q.Id), Name: q.Name, Description: q.Description, Flags: q.Flags, Priority: limit(q.Priority),
		Preempt: q.Preempt.List, PreemptMode: slurm.StatesOf(q.Preempt.Mode...), UsageFactor: q.UsageFactor.Value,
		GrpJobs: limit(m.ActiveJobs.Count), GrpSubmitJobs: limit(m.Jobs.Count), MaxWallPerJob: limit(m.WallClock.Per.Job),
		MaxJobsPerUser: limit(m.Jobs.ActiveJobs.Per.User), MaxJobsPerAccount: limit(m.Jobs.ActiveJobs.Per.Account),
		MaxSubmitJobsPerUser: limit(m.Jobs.Per.User), MaxSubmitJobsPerAccount: limit(m.Jobs.Per.Account),
		GrpTRES: string(m.Tres.Total), MaxTRESPerJob: string(m.Tres.Per.Job), MaxTRESPerNode: string(m.Tres.Per.Node),
		MaxTRESPerUser: string(m.Tres.Per.User), MaxTRESPerAccount: string(m.Tres.Per.Account),
	}
	if g := q.Limits.GraceTime; g != nil {
		out.GraceTime = slurm.NumberOf(count(*g))
	}
	return out, named("QOS", q.Name)
}

func putQOS(q slurm.QOS) any {
	out := Qos{Name: q.Name, Description: q.Description, Flags: q.Flags, Priority: dialect.Number(q.Priority)}
	if q.Flags == nil {
		out.Flags = dialect.Strings{"NOT_SET"} // Slurm's word for "leave them"
	}
	out.Preempt.List, out.Preempt.Mode = q.Preempt, dialect.Strings(q.PreemptMode)
	out.UsageFactor.Value = q.UsageFactor
	if v, ok := q.GraceTime.Get(); ok {
		out.Limits.GraceTime = new(int64(v))
	}
	m := &out.Limits.Max
	m.ActiveJobs.Count, m.Jobs.Count = dialect.Number(q.GrpJobs), dialect.Number(q.GrpSubmitJobs)
	m.WallClock.Per.Job = dialect.Number(q.MaxWallPerJob)
	m.Jobs.ActiveJobs.Per.User, m.Jobs.ActiveJobs.Per.Account = dialect.Number(q.MaxJobsPerUser), dialect.Number(q.MaxJobsPerAccount)
	m.Jobs.Per.User, m.Jobs.Per.Account = dialect.Number(q.MaxSubmitJobsPerUser), dialect.Number(q.MaxSubmitJobsPerAccount)
	t := &m.Tres
	t.Total, t.Per.Job, t.Per.Node = dialect.TRES(q.GrpTRES), dialect.TRES(q.MaxTRESPerJob), dialect.TRES(q.MaxTRESPerNode)
	t.Per.User, t.Per.Account = dialect.TRES(q.MaxTRESPerUser), dialect.TRES(q.MaxTRESPerAccount)
	return OpenapiSlurmdbdQosResp{Qos: QosList{out}}
}
