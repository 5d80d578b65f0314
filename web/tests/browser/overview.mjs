// The first page: figures that move.

/** How long acknowledgements wait, of what has just come: half of them, and nearly all. */
export async function acknowledgedIsMeasured({ page, open }) {
  await open("#/", ".tiles .tile");
  const tile = page.locator(".tile", { hasText: "Acknowledged, median" });
  await tile.locator(".value", { hasText: /\d.*s/ }).waitFor();
  await tile.locator(".more", { hasText: /99 % within \d.*s/ }).waitFor();
}
