package slurm

import "context"

// Account is a bank account of the accounting database.
type Account struct {
	Name, Description, Organization string
	// Coordinators are the users who may manage it; only Account, for a single one, reads them.
	Coordinators []string
}

// AccountCreate describes an account to add.
type AccountCreate struct {
	Account
	// Parent is the account above it; root by default.
	Parent string
	// Clusters to add it to; all by default.
	Clusters []string
	// Shares is its share of the parent's resources ("fairshare"); 1 by default.
	Shares uint32
}

// User is a user of the accounting database.
type User struct {
	Name string
	// AdminLevel is "None", "Operator" or "Administrator". Empty in a change leaves it.
	AdminLevel string
	// DefaultAccount is the one of this cluster. Empty in a change leaves it.
	DefaultAccount, DefaultWCKey string
	// Coordinates are the accounts that the user may manage; only User, for a single one, reads them.
	Coordinates []string
}

// UserCreate describes a user to add to accounts. The user may be known already.
type UserCreate struct {
	Name string
	// Accounts to add the user to; they must exist on the clusters.
	Accounts []string
	// Clusters are all by default; Partitions limit the association to them.
	Clusters, Partitions []string
	// DefaultAccount is the first of Accounts by default, for a new user.
	DefaultAccount, AdminLevel string
	DefaultQOS                 string
	QOS                        []string
	// Shares is the user's share of the account's resources ("fairshare"); 1 by default.
	Shares uint32
}

// AssociationKey names an association. User is empty for an account's own, and
// Partition for one that holds in all of them.
type AssociationKey struct{ Cluster, Account, User, Partition string }

// Association ties a user and an account to a cluster, and carries their limits. A limit
// that isn't set in an answer is not there; in a change it stays as it is, and Infinite
// takes it away.
type Association struct {
	AssociationKey
	ID            uint32
	ParentAccount string
	// Lineage is the path from the root account, as "/physics/0-alice/".
	Lineage    string
	Default    bool
	Comment    string
	DefaultQOS string
	// QOS are the ones that may be used.
	QOS      []string
	Shares   Number
	Priority Number

	// MaxJobs and MaxSubmitJobs are for each user of it; MaxWallPerJob is in minutes.
	MaxJobs, MaxSubmitJobs, MaxWallPerJob Number
	// GrpJobs and GrpSubmitJobs are for all that is below it.
	GrpJobs, GrpSubmitJobs Number
	// The limits of resources are TRES expressions, as "cpu=64,gres/gpu=2". Empty leaves them in a change.
	GrpTRES, MaxTRESPerJob, MaxTRESPerNode string
}

// AssociationFilter chooses associations; empty fields choose all.
type AssociationFilter struct {
	Clusters, Accounts, Users []string
}

// QOS is a quality of service. Limits are as in Association.
type QOS struct {
	ID                uint32
	Name, Description string
	// Flags are Slurm's words, as DENY_LIMIT. Nil leaves them in a change.
	Flags    []string
	Priority Number
	// Preempt are the QOS whose jobs may have to make room. Nil leaves them in a change.
	Preempt []string
	// PreemptMode is a set of words as CANCEL and REQUEUE. Nil leaves it in a change.
	PreemptMode States
	// GraceTime is how many seconds a job has to make room.
	GraceTime Number
	// UsageFactor multiplies what a job's use costs; nil leaves it in a change.
	UsageFactor *float64

	GrpJobs, GrpSubmitJobs, MaxWallPerJob      Number
	MaxJobsPerUser, MaxSubmitJobsPerUser       Number
	MaxJobsPerAccount, MaxSubmitJobsPerAccount Number
	GrpTRES, MaxTRESPerJob, MaxTRESPerNode     string
	MaxTRESPerUser, MaxTRESPerAccount          string
}

// Accounts reads and writes accounts.
type Accounts interface {
	Accounts(ctx context.Context) ([]Account, error)
	Account(ctx context.Context, name string) (Account, error)
	// CreateAccount fails with ErrInvalid if the account exists on all of the clusters.
	CreateAccount(ctx context.Context, a AccountCreate) error
	// UpdateAccount changes description and organization.
	UpdateAccount(ctx context.Context, a Account) error
	// DeleteAccount removes it with its associations. Slurm refuses while jobs of it run.
	DeleteAccount(ctx context.Context, name string) error
}

// Users reads and writes users.
type Users interface {
	Users(ctx context.Context) ([]User, error)
	User(ctx context.Context, name string) (User, error)
	// CreateUser fails with ErrInvalid if there is nothing to add: the user is in all of the
	// accounts, or there is no such account.
	CreateUser(ctx context.Context, u UserCreate) error
	UpdateUser(ctx context.Context, u User) error
	DeleteUser(ctx context.Context, name string) error
}

// Associations reads and writes associations.
type Associations interface {
	Associations(ctx context.Context, f AssociationFilter) ([]Association, error)
	// PutAssociation creates or changes one.
	PutAssociation(ctx context.Context, a Association) error
	DeleteAssociation(ctx context.Context, k AssociationKey) error
}

// QOSes reads and writes qualities of service.
type QOSes interface {
	QOSes(ctx context.Context) ([]QOS, error)
	QOS(ctx context.Context, name string) (QOS, error)
	// PutQOS creates or changes one.
	PutQOS(ctx context.Context, q QOS) error
	DeleteQOS(ctx context.Context, name string) error
}

// Accounting is the database of accounts, users and limits: slurmdbd.
type Accounting interface {
	Accounts
	Users
	Associations
	QOSes
}

// JobHistory changes what the accounting database holds of jobs.
type JobHistory interface {
	// SetDerivedExitCode sets the exit code, from 0 to 255, that sacct shows of the newest
	// job with an id as DerivedExitCode. The job may run or have ended.
	SetDerivedExitCode(ctx context.Context, id uint32, code uint8) error
}
