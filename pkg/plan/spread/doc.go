// Package spread divides a number of replicas over the ordered subsets of an object.
//
// The UnitedDeployment controller uses it for the subsets within one cluster, the hub for subsets that are clusters. Both get the same result
// for the same input.
//
// There are two ways to divide, chosen by the subsets:
//
//   - By number. Some subsets set their replicas (an integer, or a percentage of the total). The others share the rest evenly, and the remainder
//     stays where most replicas are now, so that the fewest pods move.
//   - Elastic. As soon as one subset has a minimum or a maximum, the list is walked in order: first every subset gets its minimum, while
//     replicas last; then every subset is filled to its maximum.
//
// All functions are pure. They are idempotent: dividing the result again changes nothing.
//
// The package doesn't validate objects. If the numbers contradict each other nevertheless (a scale request can change the total without the
// subsets), nothing moves and the Division contains the reason. It doesn't know about clusters, readiness or budgets: the caller decides how
// fast to apply a division.
package spread
