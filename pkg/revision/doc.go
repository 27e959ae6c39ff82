// Package revision keeps the history of a workload's template as ControllerRevisions: what a revision holds, how it is
// named, which one is current, which may be dropped.
//
// The idea: a revision is a function of the template. Its data is the strategic merge patch that would put the template
// back, {"spec":{"template":{...,"$patch":"replace"}}} with sorted keys; its name is the owner's name and a hash of
// that data and of the owner's collision count. So the same template finds its revision again, also one that another
// controller wrote: data and hash are byte for byte those of OpenKruise 1.9, down to the null creationTimestamp that
// older clients put into a template's metadata.
//
//	want := revision.New(...)                      the revision of the template as it is now
//	next := revision.Next(history, want)           what to do about it: nothing, create, or bring an old one to the front
//	revision.Surplus(history, live, limit)           what history has too much
//
// All of it is pure; pkg/history reads and writes. The package knows no kind of workload: template is any value that
// marshals to the JSON that stands under spec.template.
package revision
