// SPDX-License-Identifier: Apache-2.0

// Elements, and changing a page in place: what has not changed keeps its focus, its selection and its scroll position.

const svg = new Set(['svg', 'path', 'line', 'rect', 'circle', 'text', 'g'])

// h makes an element. Of the properties, "vars" are CSS variables, "key" is what identifies an element among its
// siblings, and a value of null, false or undefined leaves an attribute out.
export function h(tag, properties, ...children) {
  const element = svg.has(tag) ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag)
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === null || value === undefined || value === false) continue
    if (name === 'vars') {
      for (const [variable, of] of Object.entries(value)) element.style.setProperty(variable, of)
    } else if (name === 'key') {
      element.dataset.key = value
    } else {
      element.setAttribute(name, value === true ? '' : value)
    }
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue
    element.append(child instanceof Node ? child : String(child))
  }
  return element
}

// show makes the children of an element like those of another one.
export function show(element, ...children) {
  morphChildren(element, h('div', null, children))
}

function morph(from, to) {
  if (from.nodeType !== to.nodeType || from.nodeName !== to.nodeName) {
    from.replaceWith(to)
    return
  }
  if (from.nodeType === Node.TEXT_NODE) {
    if (from.data !== to.data) from.data = to.data
    return
  }
  for (const { name } of [...from.attributes]) {
    // The user opens and closes details, and the class "changed" is set for a moment.
    if (name !== 'style' && name !== 'open' && !to.hasAttribute(name)) from.removeAttribute(name)
  }
  for (const { name, value } of to.attributes) {
    if (name !== 'style' && from.getAttribute(name) !== value) from.setAttribute(name, value)
  }
  if (from.style.cssText !== to.style.cssText) from.style.cssText = to.style.cssText
  morphChildren(from, to)
}

function morphChildren(from, to) {
  const keyed = new Map()
  for (const child of from.children) if (child.dataset.key) keyed.set(child.dataset.key, child)
  let at = from.firstChild
  for (const child of [...to.childNodes]) {
    const key = child.dataset?.key
    const known = key ? keyed.get(key) : at?.dataset?.key ? null : at
    if (!known) {
      from.insertBefore(child, at)
      continue
    }
    const next = known === at ? at.nextSibling : at
    if (known !== at) from.insertBefore(known, at)
    morph(known, child)
    at = next
  }
  while (at) {
    const next = at.nextSibling
    at.remove()
    at = next
  }
}
