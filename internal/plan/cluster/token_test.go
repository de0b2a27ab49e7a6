package cluster

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

func tokenFacts(lifetime time.Duration) TokenFacts {
	t := &v1beta1.Token{ObjectMeta: metav1.ObjectMeta{Name: "alice", Namespace: "slurm", UID: "uid-4"}}
	t.Spec = v1beta1.TokenSpec{JwtKeyRef: key("slurm-auth-jwt", "jwt.key"), Username: "alice", Refresh: true}
	if lifetime != 0 {
		t.Spec.Lifetime = &metav1.Duration{Duration: lifetime}
	}
	return TokenFacts{Token: t, Key: []byte("the key"), Now: now, ID: "one"}
}

// next is the facts after a plan was carried out, some time later.
func (f TokenFacts) next(t *testing.T, p TokenPlan, later time.Duration) TokenFacts {
	t.Helper()
	if len(p.Objects) != 1 {
		t.Fatalf("no Secret is planned: %+v", p.Problems)
	}
	f.Secret, f.Now, f.ID = p.Objects[0].(*corev1.Secret), f.Now.Add(later), f.ID+"-next"
	return f
}

func (p TokenPlan) token() string { return string(p.Objects[0].(*corev1.Secret).Data[tokenKey]) }

func TestCheck24TokenDefaults(t *testing.T) {
	f := tokenFacts(0)
	p := Token(f)
	s := p.Objects[0].(*corev1.Secret)
	if s.Name != "alice-jwt-alice" || s.Data["SLURM_JWT"] == nil || *s.Immutable || !metav1.IsControlledBy(s, f.Token) {
		t.Errorf("Secret %s of %v, immutable %v, keys %d", s.Name, s.OwnerReferences, *s.Immutable, len(s.Data))
	}
	c, err := verify(p.token(), f.Key)
	want := claims{ID: "one", Issuer: "slurm-operator", IssuedAt: now.Unix(), NotBefore: now.Unix(), Expires: now.Unix() + 900, User: "alice"}
	if err != nil || c != want {
		t.Errorf("claims %+v, %v; want %+v", c, err, want)
	}
	if p.Again != 12*time.Minute {
		t.Errorf("looks again after %s, want 80%% of 15 minutes", p.Again)
	}
}

func TestCheck24TokenIsRefreshedAt80Percent(t *testing.T) {
	for _, lifetime := range []time.Duration{time.Second, time.Minute, 15 * time.Minute, 90000 * time.Hour} {
		f := tokenFacts(lifetime)
		first := Token(f)
		if first.Again <= 0 || !now.Add(first.Again).Before(first.Expires) {
			t.Errorf("%s: looks again after %s, and the token expires after %s", lifetime, first.Again, first.Expires.Sub(now))
		}
		before := Token(f.next(t, first, first.Again-time.Millisecond))
		if before.token() != first.token() {
			t.Errorf("%s: the token was replaced early", lifetime)
		}
		if after := Token(f.next(t, first, first.Again)); after.token() == first.token() {
			t.Errorf("%s: the token was not replaced in time", lifetime)
		}
	}
}

func TestTokenIsReissued(t *testing.T) {
	cases := map[string]func(*TokenFacts){
		"check 24: another key": func(f *TokenFacts) { f.Key = []byte("rotated") },
		"expired":               func(f *TokenFacts) { f.Now = f.Now.Add(time.Hour) },
		"malformed":             func(f *TokenFacts) { f.Secret.Data[tokenKey] = []byte("x.y") },
		"emptied":               func(f *TokenFacts) { delete(f.Secret.Data, tokenKey) },
		"another user": func(f *TokenFacts) {
			f.Token.Spec.Username = "bob"
			f.Token.Spec.SecretRef = key("alice-jwt-alice", tokenKey)
		},
		"another lifetime": func(f *TokenFacts) { f.Token.Spec.Lifetime = &metav1.Duration{Duration: time.Hour} },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			f := tokenFacts(0)
			f = f.next(t, Token(f), time.Minute)
			old := string(f.Secret.Data[tokenKey])
			f.Secret = f.Secret.DeepCopy()
			change(&f)
			p := Token(f)
			if len(p.Objects) != 1 || p.token() == old {
				t.Errorf("the token stays; problems %v", p.Problems)
			} else if _, err := verify(p.token(), f.Key); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCheck24TokenWithoutRefresh(t *testing.T) {
	f := tokenFacts(0)
	f.Token.Spec.Refresh = false
	p := Token(f)
	if !*p.Objects[0].(*corev1.Secret).Immutable {
		t.Error("the Secret is not immutable")
	}
	f = f.next(t, p, 14*time.Minute)
	if again := Token(f); again.token() != p.token() {
		t.Error("the token was replaced")
	}
	f.Now = f.Now.Add(time.Minute)
	if late := Token(f); len(late.Objects) != 0 || !strings.Contains(late.Problems[0].Message, "has expired") {
		t.Errorf("after its end: %+v", late.Problems)
	}
	f.Token.Spec.Refresh = true
	if on := Token(f); on.Recreate == nil {
		t.Error("an immutable Secret is to be changed")
	}
}

func TestTokenProblems(t *testing.T) {
	cases := map[string]struct {
		change func(*TokenFacts)
		want   string
	}{
		"no key":     {func(f *TokenFacts) { f.Key = nil }, `spec.jwtKeyRef: there is no key "jwt.key" in a Secret "slurm-auth-jwt" of namespace slurm: create it`},
		"too short":  {func(f *TokenFacts) { f.Token.Spec.Lifetime = &metav1.Duration{} }, "spec.lifetime: 0s is too short for a token that anybody could use: give at least 1s"},
		"a bad name": {func(f *TokenFacts) { f.Token.Spec.Username = "Bob_1" }, `spec.secretRef: the Secret's name would be "alice-jwt-Bob_1", which Kubernetes can't take: set spec.secretRef.name`},
		"not ours":   {func(f *TokenFacts) { f.Secret = &corev1.Secret{} }, `spec.secretRef: Secret "alice-jwt-alice" exists and belongs to nobody whom the operator knows: name another one, or delete it`},
		"another's own": {func(f *TokenFacts) {
			f.Secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "Token", Name: "b", Controller: ptr(true)}}}}
		}, `spec.secretRef: Secret "alice-jwt-alice" exists and belongs to Token b: name another one, or delete it`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := tokenFacts(0)
			tc.change(&f)
			p := Token(f)
			if len(p.Objects) != 0 || len(p.Problems) != 1 || p.Problems[0].Message != tc.want {
				t.Errorf("objects %d, problems %+v, want %q", len(p.Objects), p.Problems, tc.want)
			}
		})
	}
}

// The Secret of an earlier operator, which the signing key owns, becomes the Token's.
func TestTokenTakesOver(t *testing.T) {
	f := tokenFacts(0)
	f = f.next(t, Token(f), time.Minute)
	f.Secret = f.Secret.DeepCopy()
	f.Secret.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Secret", Name: "slurm-auth-jwt", UID: "k", Controller: ptr(true)}}
	if p := Token(f); !p.Adopt || len(p.Problems) != 0 || p.token() != string(f.Secret.Data[tokenKey]) {
		t.Errorf("adopt %v, problems %v", p.Adopt, p.Problems)
	}
}
