// Where a node is in a definition.

/** The path of a node without its iterations. @param {string} path */
export const basePath = (path) => path.replace(/\[\d+\]/g, '');

/** @param {any} node */
export function bodyOf(node) {
  return node?.forEach?.body ?? node?.while?.body ?? node?.retryUntil?.body ?? null;
}

/** The definition of the node at a path. @param {any} definition @param {string} path */
export function definedNode(definition, path) {
  let nodes = definition?.nodes ?? [];
  let found = null;
  for (const part of basePath(path).split('/')) {
    found = nodes.find((/** @type {any} */ node) => node.id === part) ?? null;
    nodes = bodyOf(found)?.nodes ?? [];
  }
  return found;
}
