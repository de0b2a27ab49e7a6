package cluster

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/overlay"
)

// TokenFacts is what a Token's Secret depends on.
type TokenFacts struct {
	Token *v1beta1.Token
	// Key is the content of the signing key; nil where it doesn't exist.
	Key []byte
	// Secret is the output Secret as it is, nil where there is none.
	Secret *corev1.Secret
	Now    time.Time
	// ID is the identity that a new token gets; no two tokens may have the same.
	ID string
}

// TokenPlan is what should be done about a Token.
type TokenPlan struct {
	Plan
	// Adopt means that the Secret was made by an earlier operator, which had the signing key
	// own it: the Token has to become its owner first.
	Adopt bool
	// IssuedAt and Expires are those of the current token; zero where there is none.
	IssuedAt, Expires time.Time
	// Again is when to look again, 0 for when something changes.
	Again time.Duration
}

const (
	defaultLifetime = 15 * time.Minute
	// longestLifetime is what Slurm takes for "without end".
	longestLifetime = (1<<31 - 2) * time.Second
	tokenIssuer     = "slurm-operator"
	tokenKey        = "SLURM_JWT"
)

// claims are those of Slurm's tokens.
type claims struct {
	ID        string `json:"jti"`
	Issuer    string `json:"iss"`
	IssuedAt  int64  `json:"iat"`
	Expires   int64  `json:"exp"`
	NotBefore int64  `json:"nbf"`
	User      string `json:"sun"`
}

// TokenSecret selects the Secret and the key that receive the token.
func TokenSecret(t *v1beta1.Token) corev1.SecretKeySelector {
	out := corev1.SecretKeySelector{Key: tokenKey}
	if ref := t.Spec.SecretRef; ref != nil {
		out = *ref
	}
	if out.Name == "" {
		out.Name = t.Name + "-jwt-" + tokenUser(t)
	}
	return out
}

func tokenUser(t *v1beta1.Token) string {
	if t.Spec.Username == "" {
		return "nobody"
	}
	return t.Spec.Username
}

// Token plans a Token's Secret.
func Token(f TokenFacts) TokenPlan {
	var plan TokenPlan
	ref := TokenSecret(f.Token)
	lifetime, err := f.lifetime()
	if err != nil {
		plan.problem(v1beta1.ReasonInvalidSpec, err.Error())
	}
	if problems := validation.IsDNS1123Subdomain(ref.Name); len(problems) > 0 {
		plan.problem(v1beta1.ReasonInvalidSpec, fmt.Sprintf("spec.secretRef: the Secret's name would be %q, which Kubernetes can't take: set spec.secretRef.name", ref.Name))
	}
	plan.missingKey("spec.jwtKeyRef", f.Token.Namespace, f.Token.JwtKey(), f.Key)
	if owner := f.foreign(); owner != "" {
		plan.problem(v1beta1.ReasonInvalidSpec, fmt.Sprintf("spec.secretRef: Secret %q exists and belongs to %s: name another one, or delete it", ref.Name, owner))
	}
	if len(plan.Problems) > 0 {
		return plan
	}
	plan.Adopt = f.Secret != nil && !metav1.IsControlledBy(f.Secret, f.Token)
	token, current, why := f.current(ref.Key, lifetime)
	locked := f.Secret != nil && f.Secret.Immutable != nil && *f.Secret.Immutable
	if why != "" && !f.Token.Spec.Refresh && f.Secret != nil {
		plan.problem(v1beta1.ReasonExpired, fmt.Sprintf("the token in Secret %q %s, and spec.refresh is false: delete the Secret to get a new one", ref.Name, why))
		return plan
	}
	if why != "" {
		token, current = f.mint(lifetime)
	}
	if locked && f.Token.Spec.Refresh {
		plan.Recreate = &Recreate{Object: f.Secret, Why: "it is immutable and spec.refresh is true"}
		return plan
	}
	plan.IssuedAt, plan.Expires = time.Unix(current.IssuedAt, 0), time.Unix(current.Expires, 0)
	plan.Objects = []Object{f.secret(ref, token)}
	plan.Again = max(plan.Expires.Sub(f.Now), time.Millisecond)
	if f.Token.Spec.Refresh {
		plan.Again = max(plan.IssuedAt.Add(lifetime*8/10).Sub(f.Now), time.Millisecond)
	}
	return plan
}

func (f TokenFacts) lifetime() (time.Duration, error) {
	if f.Token.Spec.Lifetime == nil {
		return defaultLifetime, nil
	}
	l := f.Token.Spec.Lifetime.Duration
	if l < time.Second {
		return 0, fmt.Errorf("spec.lifetime: %s is too short for a token that anybody could use: give at least 1s", l)
	}
	return min(l, longestLifetime).Truncate(time.Second), nil
}

// foreign tells whose the Secret is, if it isn't this Token's.
func (f TokenFacts) foreign() string {
	if f.Secret == nil || metav1.IsControlledBy(f.Secret, f.Token) {
		return ""
	}
	owner := metav1.GetControllerOf(f.Secret)
	switch key := f.Token.JwtKey(); {
	case owner == nil:
		return "nobody whom the operator knows"
	case owner.Kind == "Secret" && key != nil && owner.Name == key.Name:
		return ""
	}
	return owner.Kind + " " + owner.Name
}

// current reads the token that is there. why says what is wrong with it.
func (f TokenFacts) current(key string, lifetime time.Duration) (token string, c claims, why string) {
	if f.Secret == nil {
		return "", c, "doesn't exist"
	}
	token = strings.TrimSpace(string(f.Secret.Data[key]))
	if token == "" {
		return "", c, "is missing"
	}
	c, err := verify(token, f.Key)
	switch {
	case err != nil:
		return token, c, err.Error()
	case c.User != tokenUser(f.Token):
		return token, c, fmt.Sprintf("is that of user %q", c.User)
	case f.Now.Unix() >= c.Expires:
		return token, c, "has expired"
	case f.Token.Spec.Refresh && c.Expires-c.IssuedAt != int64(lifetime/time.Second):
		return token, c, "has another lifetime"
	case f.Token.Spec.Refresh && !f.Now.Before(time.Unix(c.IssuedAt, 0).Add(lifetime*8/10)):
		return token, c, "expires soon"
	}
	return token, c, ""
}

func (f TokenFacts) mint(lifetime time.Duration) (string, claims) {
	at := f.Now.Unix()
	c := claims{
		ID: f.ID, Issuer: tokenIssuer, IssuedAt: at, NotBefore: at, Expires: at + int64(lifetime/time.Second), User: tokenUser(f.Token),
	}
	return sign(c, f.Key), c
}

func (f TokenFacts) secret(ref corev1.SecretKeySelector, token string) *corev1.Secret {
	t := f.Token
	l, a := overlay.Metadata(t, v1beta1.Metadata{}, nil, nil)
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: ref.Name, Namespace: t.Namespace, Labels: l, Annotations: a, OwnerReferences: ownedBy(t, v1beta1.KindToken)},
		Immutable:  ptr(!t.Spec.Refresh),
		Data:       map[string][]byte{ref.Key: []byte(token)},
	}
}

// jwtHeader is the only one that Slurm takes for HS256.
const jwtHeader = `{"alg":"HS256","typ":"JWT"}`

func sign(c claims, key []byte) string {
	body, _ := json.Marshal(c) // strings and numbers: it can't fail
	text := base64.RawURLEncoding.EncodeToString([]byte(jwtHeader)) + "." + base64.RawURLEncoding.EncodeToString(body)
	return text + "." + base64.RawURLEncoding.EncodeToString(mac(text, key))
}

func mac(text string, key []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

func verify(token string, key []byte) (claims, error) {
	var c claims
	i := strings.LastIndexByte(token, '.')
	_, body, ok := strings.Cut(token[:max(i, 0)], ".")
	if !ok {
		return c, errors.New("is no token")
	}
	signature, err := base64.RawURLEncoding.DecodeString(token[i+1:])
	if err != nil || !hmac.Equal(signature, mac(token[:i], key)) {
		return c, errors.New("was signed with another key")
	}
	text, err := base64.RawURLEncoding.DecodeString(body)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		return c, errors.New("can't be read")
	}
	return c, nil
}
