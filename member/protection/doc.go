// Package protection refuses deletions of namespaces and CRDs with label policy.kruise.io/delete-protection=Cascading while they hold
// something, and reports all refusals that the label causes.
//
// What an object shows by itself is judged by a policy of the chart (policy_protect.yaml), which works even while no manager answers. Two
// webhooks do the rest, in every replica:
//
//   - pathValidate checks namespaces and CRDs, after the policy, by listing from the apiserver what they hold. It fails closed.
//   - pathReport is called before the policy and allows everything: it counts, logs and records what the policy will refuse. So a
//     refusal is reported by one of the two. pathReport reports it even if something else refuses the request first.
//
// Objects without the label are not sent to either.
package protection
