package operate

import (
	"fmt"
	"slices"
	"strings"
)

// Role is what somebody may do. Each may what those below it may.
type Role int

// The roles.
const (
	// Viewer may look: at everything but payloads and headers.
	Viewer Role = iota
	// Operator may look at payloads, and may do everything that can be taken back, or that concerns parked keys: retry, unpark, skip, dead, restore, pause, resume, replay.
	Operator
	// Admin may delete: prune, and whatever cannot be taken back.
	Admin
)

// ParseRole reads "viewer", "operator" or "admin".
func ParseRole(s string) (Role, error) {
	for r := Viewer; r <= Admin; r++ {
		if strings.EqualFold(s, r.String()) {
			return r, nil
		}
	}
	return Viewer, Refuse(CodeInvalid, "role %q: want viewer, operator or admin", s)
}

func (r Role) String() string {
	switch r {
	case Viewer:
		return "viewer"
	case Operator:
		return "operator"
	case Admin:
		return "admin"
	}
	return fmt.Sprintf("role %d", int(r))
}

// Actor is who asks. The zero Actor is nobody and may nothing but look.
type Actor struct {
	// Name is written into the audit: a user's name, or that of a token.
	Name string
	Role Role
}

// may returns the refusal of an actor whose role is below the one that the verb needs.
func (a Actor) may(verb Verb) error {
	need := verb.role()
	if a.Role < need {
		return Refuse(CodeForbidden, "%s needs the role %s, and %q is %s", verb, need, a.Name, a.Role)
	}
	if need > Viewer && a.Name == "" {
		return Refuse(CodeForbidden, "%s needs a name for the audit", verb)
	}
	return nil
}

// Verb is something to do.
type Verb string

// The verbs. Those on events and keys are carried out by the owner of the lane.
const (
	// VerbLook looks at lists; VerbReveal at payloads and headers.
	VerbLook   Verb = "look"
	VerbReveal Verb = "reveal"
	// VerbRetry tries an event that has failed at once, again; its key goes on with it.
	VerbRetry Verb = "retry"
	// VerbUnpark is retry of the event that stops a key.
	VerbUnpark Verb = "unpark"
	// VerbSkip moves an event to the dead ones because nobody wants it published; VerbDead because it cannot be published now. Its key goes on behind it.
	VerbSkip Verb = "skip"
	VerbDead Verb = "dead"
	// VerbRestore puts a dead event back into its place.
	VerbRestore Verb = "restore"
	// VerbReplay publishes settled events again, under their ids.
	VerbReplay Verb = "replay"
	// VerbPause and VerbResume stop and start publishing: of the source, a topic or a key.
	VerbPause  Verb = "pause"
	VerbResume Verb = "resume"
	// VerbPrune deletes settled events, and dead ones and audit rows, that are old.
	VerbPrune Verb = "prune"
	// VerbForget has a consumer forget what it has handled, so that it is handled again when it is delivered again.
	VerbForget Verb = "forget"
	// VerbRedrive sends dead letters back to where they failed; VerbPurge deletes them.
	VerbRedrive Verb = "redrive"
	VerbPurge   Verb = "purge"
	// VerbCancel ends a job between two steps.
	VerbCancel Verb = "cancel"
)

// AuditedVerbs are those that leave a row in the audit, in the order of their names.
func AuditedVerbs() []string {
	return []string{string(VerbCancel), string(VerbDead), string(VerbForget), string(VerbPause), string(VerbPrune), string(VerbPurge), string(VerbRedrive), string(VerbReplay), string(VerbRestore), string(VerbResume), string(VerbRetry), string(VerbSkip), string(VerbUnpark)}
}

// JobVerbs are those that are done to many things, as a job.
func JobVerbs() []string {
	return []string{string(VerbDead), string(VerbRedrive), string(VerbReplay), string(VerbRestore), string(VerbRetry), string(VerbSkip), string(VerbUnpark)}
}

// oneOf refuses a verb that is none of those that there are.
func oneOf(verb *string, known []string) error {
	if verb == nil || slices.Contains(known, *verb) {
		return nil
	}
	return Refuse(CodeInvalid, "verb %q: want %s or %s", *verb, strings.Join(known[:len(known)-1], ", "), known[len(known)-1])
}

func (v Verb) role() Role {
	switch v {
	case VerbLook:
		return Viewer
	case VerbPrune, VerbPurge, VerbForget:
		return Admin
	}
	return Operator
}
